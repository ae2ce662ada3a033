/* SPDX-License-Identifier: MIT */
/* groups.c - see groups.h. The memory is limited: beyond that, new keys are counted together. */
#include "report/run/groups.h"
#include "report/run/run_text.h"
#include "report/safe/clean.h"

#include <inttypes.h>
#include <math.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#define GROUPS_MAX 65536u
#define GROUP_BYTES_MAX ((size_t)32 << 20)
#define OTHER_GROUPS "(others)"
#define BAR_CELLS 40
#define KEY_MAX (48u * 1024)

struct group {
	char *key;
	uint64_t hits;
	uint64_t returns;
	uint64_t total_ns;
	uint64_t max_ns;
	uint64_t first_ns; /* Unix time */
	uint64_t last_ns;
};

bool run_groups_is_word(const char *by)
{
	return !strcmp(by, "caller") || !strcmp(by, "thread") || !strcmp(by, "stack") ||
	       !strcmp(by, "value");
}

static bool is_by_stack(const struct run_groups *g)
{
	return !strcmp(g->by, "stack");
}

static int group_compare(const void *a, const void *b)
{
	const struct group *x = a;
	const struct group *y = b;

	return strcmp(x->key, y->key);
}

static struct group *group_new(struct run_groups *g, const char *key)
{
	struct group *new = calloc(1, sizeof(*new));

	if (new)
		new->key = strdup(key);
	if (!new || !new->key || !tsearch(new, &g->groups, group_compare)) {
		if (new)
			free(new->key);
		free(new);
		return NULL;
	}
	g->count++;
	g->bytes += strlen(key);
	return new;
}

static struct group *group_get(struct run_groups *g, const char *key)
{
	struct group wanted = { .key = (char *)(uintptr_t)key };
	struct group **found = tfind(&wanted, &g->groups, group_compare);
	bool is_full = g->count >= GROUPS_MAX || g->bytes >= GROUP_BYTES_MAX;

	if (found)
		return *found;
	if (is_full && strcmp(key, OTHER_GROUPS) != 0)
		return group_get(g, OTHER_GROUPS);
	return group_new(g, key);
}

/* The location that called, behind the functions that are inlined at the hit. */
static void caller_key(const struct run_calls *calls, const struct run_hit *hit, char *buf,
		       size_t n)
{
	const struct run_call *call = hit->call;
	size_t i = 0;

	if (call && run_site_is_call(calls->site[call->site].kind)) {
		snprintf(buf, n, "?");
		if (call->caller)
			run_place_text_with_line(&call->caller_place, call->caller, buf, n);
		return;
	}
	/* A memory function is not the writer. */
	while (i < hit->frame_count && hit->via && hit->frames[i].ip != hit->ip)
		i++;
	while (i < hit->frame_count && hit->frames[i].is_inlined)
		i++;
	if (i + 1 < hit->frame_count)
		run_place_text_with_line(&hit->frames[i + 1].place, hit->frames[i + 1].ip, buf, n);
	else
		run_place_text_with_line(&hit->place, hit->ip, buf, n);
}

static void stack_key(const struct run_hit *hit, size_t frames_max, char *buf, size_t n)
{
	FILE *f = fmemopen(buf, n, "w");

	buf[0] = 0;
	if (!f)
		return;
	run_text_frames(f, hit->frames, run_frames_shown(hit->frame_count, frames_max));
	fclose(f);
	buf[n - 1] = 0;
	if (!buf[0])
		snprintf(buf, n, "    (no stack)\n");
}

static void value_key(const struct run_hit *hit, char *buf, size_t n)
{
	const struct run_call *call = hit->call;
	const char *change = hit->change ? hit->change : "?";
	const char *arrow = NULL;

	if (call) {
		snprintf(buf, n, "%s",
			 call->has_result ? call->result :
			 call->args	  ? call->args :
					    "?");
		return;
	}
	for (const char *p = change; (p = strstr(p, " -> ")); p++)
		arrow = p;
	snprintf(buf, n, "%s", arrow ? arrow + 4 : change);
}

/* Addresses are not numbers to count with. */
static bool value_number(const char *key, double *out)
{
	char *end;

	*out = strtod(key, &end);
	return end != key && !*end && isfinite(*out) && !strchr(key, 'x');
}

static void count_number(struct run_groups *g, double value)
{
	bool is_small = fabs(value) < 1;
	int bucket = is_small ? 0 : ilogb(value);

	g->least = !g->numbers || value < g->least ? value : g->least;
	g->most = !g->numbers || value > g->most ? value : g->most;
	g->numbers++;
	g->sum += value;
	bucket = bucket < RUN_BUCKETS ? bucket : RUN_BUCKETS - 1;
	if (is_small)
		g->small++;
	else if (value > 0)
		g->above[bucket]++;
	else
		g->below[bucket]++;
}

static void make_key(const struct run_groups *g, const struct run_calls *calls,
		     const struct run_hit *hit, char *key, size_t n)
{
	if (hit->call && hit->call->key) {
		snprintf(key, n, "%s", hit->call->key);
		return;
	}
	switch (g->by[0]) {
	case 'c':
		caller_key(calls, hit, key, n);
		break;
	case 't':
		snprintf(key, n, "%s/%d", hit->thread[0] ? hit->thread : "?", hit->tid);
		break;
	case 's':
		stack_key(hit, g->frames_max, key, n);
		break;
	default:
		value_key(hit, key, n);
	}
}

void run_groups_add(struct run_groups *g, const struct run_calls *calls, const struct run_hit *hit)
{
	static char key[KEY_MAX];
	double number;

	make_key(g, calls, hit, key, sizeof(key));
	if (!is_by_stack(g))
		clean_text(key);
	g->hits++;
	bool is_value = !strcmp(g->by, "value") || (hit->call && hit->call->key);
	if (is_value && value_number(key, &number))
		count_number(g, number);
	struct group *group = group_get(g, key);
	if (!group)
		return;
	group->first_ns = group->hits++ ? group->first_ns : hit->unix_ns;
	group->last_ns = hit->unix_ns;
	if (!hit->call || !hit->call->has_result)
		return;
	g->has_durations = true;
	group->returns++;
	group->total_ns += hit->call->duration_ns;
	group->max_ns = hit->call->duration_ns > group->max_ns ? hit->call->duration_ns :
								 group->max_ns;
}

struct group_list {
	const struct group **group;
	size_t n;
};

static void list_visit(const void *node, VISIT which, void *arg)
{
	struct group_list *list = arg;

	if (which == postorder || which == leaf)
		list->group[list->n++] = *(struct group *const *)node;
}

/* By the time that they took in all, where that is known. */
static int most_first(const void *a, const void *b)
{
	const struct group *x = *(struct group *const *)a;
	const struct group *y = *(struct group *const *)b;

	if (x->total_ns != y->total_ns)
		return x->total_ns < y->total_ns ? 1 : -1;
	if (x->hits != y->hits)
		return x->hits < y->hits ? 1 : -1;
	return strcmp(x->key, y->key);
}

static struct group_list list_make(const struct run_groups *g)
{
	struct group_list list = { .group = calloc(g->count + 1, sizeof(struct group *)) };

	if (!list.group)
		return list;
	twalk_r(g->groups, list_visit, &list);
	qsort(list.group, list.n, sizeof(*list.group), most_first);
	return list;
}

static void row_text(FILE *f, const struct run_groups *g, const struct group *row)
{
	char total[32] = "-";
	char mean[32] = "-";
	char most[32] = "-";

	fprintf(f, "%10" PRIu64 " %5.1f%%", row->hits, 100.0 * (double)row->hits / (double)g->hits);
	if (row->returns) {
		run_duration_text(row->total_ns, total, sizeof(total));
		run_duration_text(row->total_ns / row->returns, mean, sizeof(mean));
		run_duration_text(row->max_ns, most, sizeof(most));
	}
	if (g->has_durations)
		fprintf(f, "  %10s %10s %10s", total, mean, most);
	/* A stack has lines of its own. */
	fprintf(f, is_by_stack(g) ? "\n%s" : "  %s\n", row->key);
}

struct bucket {
	double from;
	uint64_t hits;
};

/* All buckets from the least value up. */
static size_t buckets_of(const struct run_groups *g, struct bucket out[2 * RUN_BUCKETS + 1])
{
	size_t n = 0;

	for (int i = RUN_BUCKETS - 1; i >= 0; i--)
		out[n++] = (struct bucket){ -ldexp(1, i + 1), g->below[i] };
	out[n++] = (struct bucket){ 0, g->small };
	for (int i = 0; i < RUN_BUCKETS; i++)
		out[n++] = (struct bucket){ ldexp(1, i), g->above[i] };
	return n;
}

static void numbers_text(FILE *f, const struct run_groups *g)
{
	struct bucket all[2 * RUN_BUCKETS + 1];
	size_t n = buckets_of(g, all);
	uint64_t most = 1;
	size_t first = n;
	size_t last = 0;

	for (size_t i = 0; i < n; i++) {
		most = all[i].hits > most ? all[i].hits : most;
		first = all[i].hits && first == n ? i : first;
		last = all[i].hits ? i : last;
	}
	fprintf(f, "\nvalues: %" PRIu64 " numbers, least %.15g, mean %.6g, most %.15g\n",
		g->numbers, g->least, g->sum / (double)g->numbers, g->most);
	for (size_t i = first; i <= last && i < n; i++) {
		char bar[BAR_CELLS + 1];
		size_t len = (size_t)((all[i].hits * BAR_CELLS + most - 1) / most);

		memset(bar, '#', len);
		bar[len] = 0;
		fprintf(f, "%20.15g or more %10" PRIu64 "%s%s\n", all[i].from, all[i].hits,
			len ? "  " : "", bar);
	}
}

void run_groups_text(struct run_text *o, const struct run_groups *g)
{
	struct group_list list = list_make(g);
	size_t rows = run_text_rows(o);

	if (list.group && list.n) {
		fprintf(o->f, "\n%10s %6s  ", "hits", "share");
		if (g->has_durations)
			fprintf(o->f, "%10s %10s %10s  ", "total", "mean", "longest");
		fprintf(o->f, "%s\n", g->by);
	}
	for (size_t i = 0; list.group && i < list.n && i < rows; i++)
		row_text(o->f, g, list.group[i]);
	if (list.n > rows)
		fprintf(o->f, "%10s and %zu more\n", "", list.n - rows);
	/* A few values are better printed one by one. */
	if (g->numbers && list.n > rows)
		numbers_text(o->f, g);
	free(list.group);
}

static json_t *row_json(const struct group *row)
{
	json_t *j = json_object();

	json_object_set_new(j, "key", run_json_text(row->key));
	json_object_set_new(j, "hits", json_integer((json_int_t)row->hits));
	json_object_set_new(j, "first_unix_ns", json_integer((json_int_t)row->first_ns));
	json_object_set_new(j, "last_unix_ns", json_integer((json_int_t)row->last_ns));
	if (row->returns) {
		json_object_set_new(j, "returns", json_integer((json_int_t)row->returns));
		json_object_set_new(j, "total_ns", json_integer((json_int_t)row->total_ns));
		json_object_set_new(j, "max_ns", json_integer((json_int_t)row->max_ns));
	}
	return j;
}

static json_t *numbers_json(const struct run_groups *g)
{
	struct bucket all[2 * RUN_BUCKETS + 1];
	size_t n = buckets_of(g, all);
	json_t *j = json_object();
	json_t *list = json_array();

	json_object_set_new(j, "count", json_integer((json_int_t)g->numbers));
	json_object_set_new(j, "least", json_real(g->least));
	json_object_set_new(j, "mean", json_real(g->sum / (double)g->numbers));
	json_object_set_new(j, "most", json_real(g->most));
	for (size_t i = 0; i < n; i++) {
		if (!all[i].hits)
			continue;
		json_t *bucket = json_object();
		json_object_set_new(bucket, "from", json_real(all[i].from));
		json_object_set_new(bucket, "hits", json_integer((json_int_t)all[i].hits));
		json_array_append_new(list, bucket);
	}
	json_object_set_new(j, "histogram", list);
	return j;
}

json_t *run_groups_json(const struct run_groups *g)
{
	struct group_list list = list_make(g);
	json_t *j = json_object();
	json_t *rows = json_array();

	for (size_t i = 0; i < list.n; i++)
		json_array_append_new(rows, row_json(list.group[i]));
	json_object_set_new(j, "by", json_string(g->by));
	json_object_set_new(j, "rows", rows);
	json_object_set_new(j, "numbers", g->numbers ? numbers_json(g) : json_null());
	free(list.group);
	return j;
}

static void group_free(void *node)
{
	struct group *group = node;

	free(group->key);
	free(group);
}

void run_groups_free(struct run_groups *g)
{
	tdestroy(g->groups, group_free);
	g->groups = NULL;
	g->count = 0;
}
