// SPDX-License-Identifier: MIT
/* watch_objects_arm.c - the events of `trapline watch --at`, and what its summary says. */
#include "cli/clock.h"
#include "cli/cmd.h"
#include "cli/watch_objects.h"

#include <errno.h>
#include <inttypes.h>
#include <search.h>
#include <stdlib.h>
#include <unistd.h>

#define COMMAND watch_command

static int arm_point(struct object_point *p, struct trapline *t,
		     const struct session *session, void *arg)
{
	TRAPLINE_OPTS(event, opts);
	uint64_t *addresses =
		calloc(p->sites.count ? p->sites.count : 1, sizeof(*addresses));
	size_t n = 0;

	if (!addresses)
		return cli_wrong(COMMAND, "out of memory");
	for (size_t i = 0; i < p->sites.count; i++)
		if (!p->way[i].is_left_out)
			addresses[n++] = p->sites.site[i].address;
	opts.arg = arg;
	opts.flags = p->is_return ? TRAPLINE_RETURNS : 0;
	int err = trapline_break_sites(t, addresses, n, &opts, &p->event);
	free(addresses);
	if (err >= 0)
		return 0;
	if (geteuid() && (err == -EPERM || err == -EACCES || err == -EOPNOTSUPP))
		return cli_wrong(
			COMMAND,
			"--at needs uprobes and BPF, which are for root (CAP_SYS_ADMIN "
			"and CAP_BPF)");
	return session_explain(session, "break on", p->where, err);
}

static int arm_slots(struct watch_objects *o, struct trapline *t,
		     const struct session *session,
		     const struct trapline_event_opts *opts)
{
	int err = 0;

	while (!err)
		err = watch_slots_add(&o->slots, t, WATCH_REST(o->what.address),
				      o->what.len, o->what.access, opts);
	return o->slots.count ? 0 : session_explain(session, "watch", o->set->what, err);
}

int watch_objects_arm(struct watch_objects *o, struct trapline *t,
		      const struct session *session,
		      const struct trapline_event_opts *opts)
{
	o->delays_ns = calloc(DELAYS_MAX, sizeof(*o->delays_ns));
	if (!o->delays_ns)
		return cli_wrong(COMMAND, "out of memory");
	/* Ends first: no object is seen whose end is not. */
	int status = o->set->until ? arm_point(&o->until, t, session, opts->arg) : 0;
	if (!status)
		status = arm_point(&o->at, t, session, opts->arg);
	return status ? status : arm_slots(o, t, session, opts);
}

static uint64_t lost_of(const struct object_point *p)
{
	struct trapline_stats st = { .size = sizeof(st) };

	if (!p->event || trapline_event_stats(p->event, &st) < 0)
		return 0;
	return st.lost_ring_full + st.lost_kernel;
}

static int compare_delays(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a;
	uint32_t y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void count_alive(const void *node, VISIT which, void *arg)
{
	struct watch_objects *o = arg;

	if (which != postorder && which != leaf)
		return;
	struct object *object = *(struct object *const *)node;
	uint64_t now = now_ns();

	o->counts.alive++;
	o->counts.life_ns += now > object->born_ns ? now - object->born_ns : 0;
	if (object->armed_ns && now > object->armed_ns)
		object->watched_ns += now - object->armed_ns;
	object->armed_ns = 0;
	o->counts.watched_ns += object->watched_ns;
}

void watch_objects_end(struct watch_objects *o, struct run_end *end)
{
	twalk_r(o->known, count_alive, o);
	/* They had a register, and it told nothing of them. */
	o->counts.watched -= o->counts.too_late;
	o->counts.calls_lost = lost_of(&o->at) + lost_of(&o->until);
	watch_slots_stats(&o->slots, end);
	end->delivered -= o->counts.after_end < end->delivered ? o->counts.after_end :
								 end->delivered;
	end->counts[end->count_count++] =
		(struct run_count){ .name = "after_end", .value = o->counts.after_end };
	if (o->delay_count)
		qsort(o->delays_ns, o->delay_count, sizeof(*o->delays_ns),
		      compare_delays);
	o->counts.delay_median_ns = o->delay_count ? o->delays_ns[o->delay_count / 2] : 0;
}

static double share(const struct object_counts *c)
{
	return c->life_ns ? (double)c->watched_ns / (double)c->life_ns : 0;
}

static void say_if(FILE *f, uint64_t n, const char *text)
{
	if (n)
		fprintf(f, "%" PRIu64 " %s\n", n, text);
}

void watch_objects_text(const struct watch_objects *o, FILE *f)
{
	const struct object_counts *c = &o->counts;
	uint64_t never = c->seen - c->watched;

	fprintf(f,
		"objects: %" PRIu64 " seen at %s, %" PRIu64 " watched, %" PRIu64
		" never (%zu register%s)"
		"; %" PRIu64 " ended, %" PRIu64 " still there\n",
		c->seen, o->set->at, c->watched, never, o->slots.count,
		o->slots.count == 1 ? "" : "s", c->ended + c->unmapped, c->alive);
	if (c->life_ns)
		fprintf(f, "they were watched for %.1f%% of their lifetimes%s\n",
			100 * share(c),
			o->set->until ?
				"" :
				", as far as known: without --until none ends but by munmap");
	if (o->delay_count)
		fprintf(f,
			"armed %.0f us after %s %s (median; worst %.0f us): what happened to an object "
			"before is not seen\n",
			(double)c->delay_median_ns / 1e3, o->at.where,
			o->at.is_return ? "returned" : "was entered",
			(double)c->delay_max_ns / 1e3);
	say_if(f, c->too_late, "had ended before they were armed");
	say_if(f, c->nothing, "calls with a null pointer instead of an object");
	say_if(f, c->no_place,
	       "could not be watched: a null pointer on the way, or alignment");
	say_if(f, c->untracked, "were too many at a time to be known");
	say_if(f, c->calls_lost,
	       "calls were lost: their objects, or the ends of objects, are not known");
	say_if(f, c->after_end,
	       "hits dropped: the object had ended, the memory was another's");
}

json_t *watch_objects_json(const struct watch_objects *o)
{
	const struct object_counts *c = &o->counts;
	const struct {
		const char *name;
		uint64_t value;
	} numbers[] = {
		{ "seen", c->seen },
		{ "watched", c->watched },
		{ "ended", c->ended },
		{ "unmapped", c->unmapped },
		{ "alive", c->alive },
		{ "too_late", c->too_late },
		{ "null", c->nothing },
		{ "no_place", c->no_place },
		{ "untracked", c->untracked },
		{ "calls", o->at.calls },
		{ "calls_lost", c->calls_lost },
		{ "registers", o->slots.count },
		{ "lifetime_ns", c->life_ns },
		{ "watched_ns", c->watched_ns },
		{ "armed_after_median_ns", c->delay_median_ns },
		{ "armed_after_max_ns", c->delay_max_ns },
	};
	json_t *j = json_object();

	json_object_set_new(j, "at", run_json_text(o->set->at));
	json_object_set_new(j, "until", run_json_text(o->set->until));
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		json_object_set_new(j, numbers[i].name,
				    json_integer((json_int_t)numbers[i].value));
	json_object_set_new(j, "share", json_real(share(c)));
	return json_pack("{s:o}", "objects", j);
}

static void point_release(struct object_point *p)
{
	code_sites_free(&p->sites);
	free(p->way);
}

void watch_objects_release(struct watch_objects *o)
{
	point_release(&o->at);
	point_release(&o->until);
	tdestroy(o->known, free);
	free(o->delays_ns);
}
