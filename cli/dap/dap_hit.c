/* SPDX-License-Identifier: MIT */
/*
 * dap_hit.c - see dap_hit.h.
 *
 * A client that gets a hundred thousand lines hangs. So a second has 200 lines, the last ones of
 * which are sums. Names and values are looked up for the lines that are shown only.
 */
#include "cli/dap/dap_hit.h"

#include "base/clock.h"
#include "cli/break/break_args.h"
#include "cli/dap/dap_point.h"
#include "cli/observe/hit_frames.h"
#include "cli/observe/hit_memory.h"
#include "report/files/files.h"
#include "report/path.h"
#include "report/run/run.h"
#include "report/safe/clean.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SECOND_NS 1000000000u
#define SUM_LINES 12 /* of the lines of a second */
#define CHILD_LINES \
	100 /* of these lines, for programs whose output is passed on, if there are some */
#define LINE_BYTES 2000
#define PATH_BYTES 4096
#define POLLS_MAX 16

static json_t *output_body(const char *category, const char *text)
{
	json_t *j = json_pack("{s:s}", "category", category);

	json_object_set_new(j, "output", run_json_text(text));
	return j;
}

void dap_say(struct dap *d, const char *category, const char *text)
{
	dap_send_event(&d->out, "output", output_body(category, text));
}

void dap_note(struct dap *d, const char *format, ...)
{
	char text[LINE_BYTES];
	va_list args;

	va_start(args, format);
	int used = vsnprintf(text, sizeof(text) - 1, format, args);
	va_end(args);
	if (used > (int)sizeof(text) - 2)
		used = (int)sizeof(text) - 2;
	text[used] = '\n';
	text[used + 1] = 0;
	dap_say(d, "console", text);
}

/* A location that the client can open: in its own words where it named the file. */
static void set_source(struct dap *d, json_t *body, const char *path, int line)
{
	const char *slash = strrchr(path, '/');

	if (line <= 0 || !*path)
		return;
	json_t *source = json_object();
	json_object_set_new(source, "name", run_json_text(slash ? slash + 1 : path));
	json_object_set_new(source, "path", run_json_text(path));
	json_object_set_new(body, "source", source);
	json_object_set_new(body, "line", json_integer(line - (d->counts_lines_from_0 ? 1 : 0)));
}

void dap_say_at(struct dap *d, const char *text, const char *path, int line, const char *group)
{
	json_t *body = output_body("console", text);

	if (group)
		json_object_set_new(body, "group", json_string(group));
	set_source(d, body, path, line);
	dap_send_event(&d->out, "output", body);
}

static void second_begin(struct dap *d, uint64_t now)
{
	d->second_ns = now;
	d->lines = 0;
	d->child_lines = 0;
}

static bool has_children(const struct dap *d)
{
	for (size_t i = 0; i < DAP_CHILDREN; i++)
		if (d->child[i].pid)
			return true;
	return false;
}

static bool line_is_free(struct dap *d)
{
	uint64_t now = clock_now_ns();
	unsigned int max = DAP_LINES_A_SECOND - SUM_LINES - (has_children(d) ? CHILD_LINES : 0);

	/* Sums come before the next second's lines. */
	if (now - d->second_ns >= SECOND_NS && !d->unshown)
		second_begin(d, now);
	if (d->lines >= max || !dap_send_has_room(&d->out))
		return false;
	d->lines++;
	return true;
}

unsigned int dap_hit_child_lines(struct dap *d)
{
	uint64_t now = clock_now_ns();

	if (now - d->second_ns >= SECOND_NS && !d->unshown)
		second_begin(d, now);
	if (d->child_lines >= CHILD_LINES || !dap_send_has_room(&d->out))
		return 0;
	return CHILD_LINES - d->child_lines;
}

/* `lookup(n=5, key=0x5581 "zebra")`, or the line that was reached. */
static void default_text(struct symbols *s, const struct dap_point *p, size_t index,
			 const struct trapline_hit *hit, char *buf, size_t n, bool *is_later)
{
	const struct code_site *site = &p->sites.site[index];
	struct break_values values = { .s = s, .hit = hit };
	char args[LINE_BYTES / 2] = "";

	if (site->kind != CODE_SITE_FUNCTION) {
		snprintf(buf, n, "%s", site->name);
		return;
	}
	if (!symbols_is_32bit(s))
		break_args_text(&values, p->signature[index], args, sizeof(args));
	*is_later = values.later;
	snprintf(buf, n, "%s(%s)", site->name, args);
}

uint32_t dap_hit_texts(const struct dap_point *p, size_t site)
{
	if (p->template)
		return hit_bound_texts(p->bound[site]);
	return p->signature && p->signature[site] ? break_texts(p->signature[site], false) : 0;
}

void dap_hit_copies(const struct dap_point *p, size_t site, struct hit_copies *c)
{
	c->site = p->sites.site[site].address;
	if (p->template)
		hit_bound_copies(p->bound[site], c);
	else if (p->signature && p->signature[site])
		hit_copies_signature(c, p->signature[site]);
}

/* A value on the stack that is read later may be another by then. */
bool dap_hit_wants_stack(const struct dap_point *p, size_t site)
{
	const struct signature *signature = p->signature ? p->signature[site] : NULL;

	if (p->template)
		return hit_bound_wants_stack(p->bound[site]);
	for (size_t i = 0; signature && i < signature->count; i++)
		if (signature->parameter[i].where == SIGNATURE_STACK)
			return true;
	return false;
}

/* The mark of such a line; the first one has an explanation. */
static const char *later_mark(struct dap *d, const struct trapline_hit *hit, bool is_later)
{
	if (is_later && !d->said_later)
		dap_note(
			d,
			"'memory read later': some memory of a line was read after its hit, when the "
			"program may have changed it: %s",
			hit_memory_remedy(hit));
	d->said_later = d->said_later || is_later;
	return is_later ? "  (memory read later)" : "";
}

/* `server/4711: `, where it is not the first process. Returns how long it is. */
static size_t process_text(struct dap *d, const struct trapline_hit *hit, char *buf, size_t n)
{
	buf[0] = 0;
	if (!d->follows || hit->pid == d->pid)
		return 0;
	return (size_t)snprintf(buf, n, "%.15s/%d: ", targets_name(&d->targets, hit->pid),
				hit->pid);
}

static void show_code(struct dap *d, struct dap_point *p, size_t index,
		      const struct trapline_hit *record)
{
	struct trapline_hit hit = *record;
	char text[LINE_BYTES];
	char path[PATH_BYTES] = "";
	struct place place;
	bool is_later = false;

	thread_names_fill(&d->names, &hit);
	clean_text(hit.thread);
	/* Those of the hit's process, whose memory they read. */
	struct symbols *s = d->follows ? targets_symbols(&d->targets, &hit) : d->symbols;
	size_t used = process_text(d, &hit, text, sizeof(text));
	if (p->template)
		hit_template_text(p->template, p->bound[index], s, &hit, text + used,
				  sizeof(text) - 64 - used, &is_later);
	else
		default_text(s, p, index, &hit, text + used, sizeof(text) - 64 - used, &is_later);
	symbols_read_from(d->symbols, d->pid);
	clean_text(text);
	used = strlen(text);
	snprintf(text + used, sizeof(text) - used, "%s\n", later_mark(d, &hit, is_later));
	symbols_place(d->symbols, hit.address, &place);
	if (p->path)
		snprintf(path, sizeof(path), "%s", p->path);
	else if (files_source(d->symbols, hit.address, path, sizeof(path)))
		path_normalize(path);
	dap_say_at(d, text, path, p->kind == DAP_LINE ? p->real_line : place.line, NULL);
}

static void remember(struct dap_point *p, const struct trapline_hit *hit, const char *change,
		     const char *by)
{
	struct dap_seen *seen = &p->seen[p->seen_count++ % DAP_HISTORY];

	seen->time_ns = hit->time_ns;
	snprintf(seen->text, sizeof(seen->text), "%.*s", (int)sizeof(seen->text) - 1, change);
	snprintf(seen->by, sizeof(seen->by), "%.*s", (int)sizeof(seen->by) - 1, by);
}

static void change_text(struct dap *d, const struct dap_point *p, const struct trapline_hit *hit,
			char *buf, size_t n)
{
	struct value_view view = p->expr.view;
	const struct value_part part = { .offset = view.type ? hit->address - p->expr.address : 0,
					 .len = hit->len,
					 .old_known = hit->old_known,
					 .new_known = hit->value_when != TRAPLINE_VALUE_NONE,
					 .old_value = hit->old_value,
					 .new_value = hit->new_value };

	if (!view.type)
		view.type = type_bytes(d->symbols, hit->len);
	value_change(d->symbols, &view, &part, hit->access == TRAPLINE_READ_WRITE, buf, n);
	clean_text(buf);
}

static void show_data(struct dap *d, struct dap_point *p, const struct trapline_hit *record,
		      bool has_line)
{
	struct trapline_hit hit = *record;
	uint64_t at = hit.ip - (hit.done && !hit.async ? 1 : 0);
	char path[PATH_BYTES] = "";
	char change[300];
	char where[300];
	char by[400];
	char text[LINE_BYTES];
	struct place place;

	change_text(d, p, &hit, change, sizeof(change));
	thread_names_fill(&d->names, &hit);
	clean_text(hit.thread);
	hit_place(d->symbols, hit.ip, hit.done && !hit.async, &place);
	run_place_text(&place, hit.ip, where, sizeof(where));
	snprintf(by, sizeof(by), "%s/%d in %s", hit.thread, hit.tid, where);
	remember(p, &hit, change, by);
	if (!has_line)
		return;
	snprintf(text, sizeof(text), "%s: %s, %s\n", p->name, change, by);
	if (files_source(d->symbols, at, path, sizeof(path)))
		path_normalize(path);
	dap_say_at(d, text, path, place.line, NULL);
}

static void point_hit(struct dap *d, struct dap_point *p, size_t index,
		      const struct trapline_hit *hit)
{
	bool has_line = line_is_free(d);

	p->counts.hits++;
	if (has_line) {
		p->counts.shown++;
	} else {
		p->counts.unshown++;
		d->unshown++;
	}
	if (p->kind == DAP_DATA)
		show_data(d, p, hit, has_line);
	else if (has_line)
		show_code(d, p, index, hit);
}

enum trapline_action dap_hit(const struct trapline_hit *record)
{
	struct dap_arm *arm = record->arg;
	struct dap *d = arm->dap;
	size_t low = 0;
	size_t high = arm->count;

	if (arm->pace.event_count)
		pace_hit(&arm->pace);
	if (arm->count == 1 && arm->site[0].point && arm->site[0].point->kind == DAP_DATA) {
		point_hit(d, arm->site[0].point, 0, record);
		return TRAPLINE_GO_ON;
	}
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (arm->site[middle].address < record->address)
			low = middle + 1;
		else
			high = middle;
	}
	/* Several breakpoints may be at one location. */
	for (; low < arm->count && arm->site[low].address == record->address; low++) {
		if (arm->site[low].point)
			point_hit(d, arm->site[low].point, arm->site[low].index, record);
		else
			arm->orphans++;
	}
	return TRAPLINE_GO_ON;
}

void dap_hit_meanwhile(struct dap *d)
{
	for (int i = 0; i < POLLS_MAX && trapline_poll(d->target, 0, dap_hit) > 0; i++)
		;
	d->drained_ns = clock_now_ns();
	dap_hit_tick(d);
	dap_send_flush(&d->out);
}

void dap_hit_sum(struct dap *d, struct dap_point *p)
{
	char name[300];

	if (!p->counts.unshown)
		return;
	dap_point_name(p, name, sizeof(name));
	dap_note(d, "%s: %" PRIu64 " more hit%s, not shown", name, p->counts.unshown,
		 p->counts.unshown == 1 ? "" : "s");
	d->unshown -= p->counts.unshown;
	p->counts.summed += p->counts.unshown;
	p->counts.unshown = 0;
}

/* The breakpoints with most hits have a line each, and the others one together. */
static void sum_rest(struct dap *d)
{
	uint64_t hits = 0;
	size_t points = 0;

	for (struct dap_point *p = d->points; p; p = p->next) {
		if (!p->counts.unshown)
			continue;
		points++;
		hits += p->counts.unshown;
		p->counts.summed += p->counts.unshown;
		p->counts.unshown = 0;
	}
	d->unshown -= hits;
	if (points)
		dap_note(d, "%zu other breakpoint%s: %" PRIu64 " more hit%s, not shown", points,
			 points == 1 ? "" : "s", hits, hits == 1 ? "" : "s");
}

void dap_hit_sum_all(struct dap *d)
{
	for (int i = 0; i < SUM_LINES - 2 && d->unshown; i++) {
		struct dap_point *most = NULL;
		for (struct dap_point *p = d->points; p; p = p->next)
			if (p->counts.unshown &&
			    (!most || p->counts.unshown > most->counts.unshown))
				most = p;
		if (!most)
			break;
		dap_hit_sum(d, most);
	}
	sum_rest(d);
}

int dap_hit_tick(struct dap *d)
{
	uint64_t now = clock_now_ns();

	if (!d->unshown)
		return 1000;
	if (now - d->second_ns >= SECOND_NS && dap_send_has_room(&d->out)) {
		dap_hit_sum_all(d);
		second_begin(d, now);
		return 1000;
	}
	uint64_t left = d->second_ns + SECOND_NS > now ? d->second_ns + SECOND_NS - now : 0;
	return (int)(left / 1000000u) + 1;
}
