// SPDX-License-Identifier: MIT
/*
 * watch_output.c - hits as lines for people and as JSON objects, and the status line.
 *
 * Output is flushed once per batch of records, not per line; the status line is on stderr and
 * is taken away before anything is printed below it.
 */
#include "cli/cmd.h"
#include "cli/watch.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define COMMAND "watch"
#define STATUS_INTERVAL_NS 250000000u
#define REGISTERS 17

static const char *const access_names[] = { "", "r", "w", "rw" };
static const char *const value_names[] = { "none", "hit", "later" };

void watch_place(struct symbols *s, uint64_t ip, bool after, struct place *out)
{
	uint64_t back = after ? 1 : 0;

	symbols_place(s, ip - back, out);
	out->offset += out->function ? back : 0;
	out->module_offset += out->module ? back : 0;
}

const char *watch_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

void watch_format_place(const struct place *p, uint64_t address, char *buf, size_t n)
{
	if (p->function && p->offset)
		snprintf(buf, n, "%s+0x%" PRIx64, p->function, p->offset);
	else if (p->function)
		snprintf(buf, n, "%s", p->function);
	else if (p->module)
		snprintf(buf, n, "%s+0x%" PRIx64, p->module, p->module_offset);
	else
		snprintf(buf, n, "0x%" PRIx64, address);
}

static uint64_t clock_offset(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec - watch_now_ns();
}

static bool has_color(int fd)
{
	const char *no = getenv("NO_COLOR");
	const char *term = getenv("TERM");

	return isatty(fd) && !(no && *no) && term && strcmp(term, "dumb") != 0;
}

int watch_output_open(struct watch_output *o, const struct watch_settings *set)
{
	const char *term = getenv("TERM");

	*o = (struct watch_output){ .stack = set->stack, .clock_offset_ns = clock_offset(),
				    .started_ns = watch_now_ns() };
	if (set->output) {
		o->json = fopen(set->output, "we");
		if (!o->json)
			return cli_wrong(COMMAND, "cannot write %s: %s", set->output,
					 strerror(errno));
	} else if (set->json) {
		o->json = stdout;
	}
	if (!set->json)
		o->text = stdout;
	o->color = has_color(STDOUT_FILENO);
	o->status = isatty(STDERR_FILENO) && !(term && !strcmp(term, "dumb"));
	return 0;
}

void watch_output_close(struct watch_output *o)
{
	watch_output_clear_status(o);
	if (o->json && o->json != stdout)
		fclose(o->json);
	fflush(stdout);
}

void watch_output_clear_status(struct watch_output *o)
{
	if (o->status_shown)
		fputs("\r\033[K", stderr);
	o->status_shown = false;
}

static void show_status(struct watch_output *o, uint64_t hits, bool paused)
{
	uint64_t now = watch_now_ns();
	uint64_t since = o->status_at_ns ? o->status_at_ns : o->started_ns;
	static uint64_t rate;

	if (now - since >= STATUS_INTERVAL_NS) {
		rate = (hits - o->status_hits) * 1000000000u / (now - since);
		o->status_at_ns = now;
		o->status_hits = hits;
	} else if (o->status_shown) {
		return;
	}
	fprintf(stderr, "\r\033[K%" PRIu64 " hits/s, %" PRIu64 " in %" PRIu64 " s%s; Ctrl-C ends",
		rate, hits, (now - o->started_ns) / 1000000000u, paused ? ", paused" : "");
	o->status_shown = true;
}

bool watch_output_flush(struct watch_output *o, uint64_t hits, bool paused)
{
	bool failed = false;

	if (o->text)
		failed = fflush(o->text) != 0;
	if (o->json)
		failed = fflush(o->json) != 0 || failed;
	if (o->status && !failed)
		show_status(o, hits, paused);
	return !failed;
}

struct value_part watch_part(const struct watch_what *what, const struct trapline_hit *hit)
{
	return (struct value_part){
		.offset = hit->address - what->address,
		.len = hit->len,
		.old_known = hit->old_known,
		.new_known = hit->value_when != TRAPLINE_VALUE_NONE,
		.old_value = hit->old_value,
		.new_value = hit->new_value,
	};
}

static void format_values(struct watch_output *o, struct symbols *s,
			  const struct trapline_hit *hit, char *buf, size_t n)
{
	struct value_part part = watch_part(o->what, hit);
	struct value_view view = o->what->view;

	if (!view.type) {
		view.type = type_bytes(s, hit->len);
		part.offset = 0;
	}
	value_change(s, &view, &part, hit->access == TRAPLINE_READ_WRITE, buf, n);
}

/* Columns grow with what they hold, so that lines stay aligned and short names cost nothing. */
static int widen(int *width, const char *text, int most)
{
	int n = (int)strlen(text);

	if (n > *width)
		*width = n < most ? n : most;
	return *width;
}

static void text_time(FILE *f, uint64_t wall_ns)
{
	time_t seconds = (time_t)(wall_ns / 1000000000u);
	struct tm tm;

	localtime_r(&seconds, &tm);
	fprintf(f, "%02d:%02d:%02d.%06u", tm.tm_hour, tm.tm_min, tm.tm_sec,
		(unsigned int)(wall_ns % 1000000000u / 1000u));
}

static void format_site(char *buf, size_t n, const struct place *p, uint64_t ip)
{
	watch_format_place(p, ip, buf, n);
	size_t used = strlen(buf);
	if (p->file && used < n)
		snprintf(buf + used, n - used, " (%s:%d)", watch_base_name(p->file), p->line);
}

static void text_stack(struct watch_output *o, struct symbols *s, const uint64_t *frames,
		       size_t n, bool after)
{
	for (size_t i = 0; i < n; i++) {
		struct place p;
		char site[400];
		watch_place(s, frames[i], i || after, &p);
		format_site(site, sizeof(site), &p, frames[i]);
		fprintf(o->text, "    #%-2zu %s%s%s\n", i, site, p.module && p.function ? " in " : "",
			p.module && p.function ? p.module : "");
	}
}

static void text_hit(struct watch_output *o, struct symbols *s, const struct trapline_hit *hit,
		     const struct place *p)
{
	char thread[48];
	char site[400];
	char values[400];
	bool parts = hit->len != o->what->len && !o->what->view.type;

	snprintf(thread, sizeof(thread), "%s/%d", hit->thread[0] ? hit->thread : "?", hit->tid);
	format_site(site, sizeof(site), p, hit->ip);
	format_values(o, s, hit, values, sizeof(values));
	fputs(o->color ? "\033[2m" : "", o->text);
	text_time(o->text, hit->time_ns + o->clock_offset_ns);
	fputs(o->color ? "\033[0m" : "", o->text);
	fprintf(o->text, "  %-*s  %-*s  %s%-*s%s  %s", widen(&o->thread_width, thread, 24), thread,
		widen(&o->place_width, site, 56), site, o->color ? "\033[1m" : "",
		widen(&o->value_width, values, 40), values, o->color ? "\033[0m" : "",
		access_names[hit->access & 3]);
	if (parts)
		fprintf(o->text, "  at 0x%" PRIx64 ":%u", hit->address, hit->len);
	if (hit->value_when == TRAPLINE_VALUE_LATER)
		fputs("  (read later)", o->text);
	if (hit->async)
		fputs("  (SIGTRAP was blocked: the place is where it was unblocked)", o->text);
	fputc('\n', o->text);
}

static json_t *json_hex(uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "0x%" PRIx64, value);
	return json_string(text);
}

/* JSON's integers end where a signed 64-bit number does. */
static json_t *json_value(uint64_t value, bool known)
{
	if (!known)
		return json_null();
	return value <= INT64_MAX ? json_integer((json_int_t)value) : json_hex(value);
}

/* Names in a foreign binary need not be UTF-8; jansson refuses others. */
static json_t *json_text(const char *text)
{
	json_t *j = text ? json_string(text) : NULL;

	if (j || !text)
		return j ? j : json_null();
	char plain[256];
	size_t n = 0;
	for (; text[n] && n < sizeof(plain) - 1; n++)
		plain[n] = (unsigned char)text[n] < 0x80 ? text[n] : '?';
	plain[n] = 0;
	return json_string(plain);
}

static void json_place(json_t *to, const struct place *p)
{
	json_object_set_new(to, "function", json_text(p->function));
	json_object_set_new(to, "offset", p->function ? json_integer((json_int_t)p->offset) :
						       json_null());
	json_object_set_new(to, "module", json_text(p->module));
	json_object_set_new(to, "module_offset", p->module ? json_hex(p->module_offset) :
							     json_null());
	json_object_set_new(to, "file", json_text(p->file));
	json_object_set_new(to, "line", p->line ? json_integer(p->line) : json_null());
}

static json_t *json_stack(struct symbols *s, const uint64_t *frames, size_t n, bool after)
{
	json_t *stack = json_array();

	for (size_t i = 0; i < n; i++) {
		struct place p;
		json_t *frame = json_object();
		watch_place(s, frames[i], i || after, &p);
		json_object_set_new(frame, "ip", json_hex(frames[i]));
		json_place(frame, &p);
		json_array_append_new(stack, frame);
	}
	return stack;
}

static void json_line(FILE *f, json_t *object)
{
	json_dumpf(object, f, JSON_COMPACT);
	fputc('\n', f);
	json_decref(object);
}

/* The values by their type; null when that is not known. */
static json_t *json_typed(struct watch_output *o, struct symbols *s,
			  const struct trapline_hit *hit)
{
	const struct value_view *view = &o->what->view;
	struct value_part part = watch_part(o->what, hit);

	if (!view->type)
		return json_null();
	json_t *j = json_object();
	json_object_set_new(j, "type", json_text(view->type->name));
	json_object_set_new(j, "old", value_json(s, view, &part, false));
	json_object_set_new(j, "new", value_json(s, view, &part, true));
	return j;
}

static void json_hit(struct watch_output *o, struct symbols *s, const struct trapline_hit *hit,
		     const struct place *p, json_t *stack)
{
	json_t *j = json_object();

	json_object_set_new(j, "type", json_string("hit"));
	json_object_set_new(j, "time_ns", json_integer((json_int_t)hit->time_ns));
	json_object_set_new(j, "pid", json_integer(hit->pid));
	json_object_set_new(j, "tid", json_integer(hit->tid));
	json_object_set_new(j, "thread", json_text(hit->thread));
	json_object_set_new(j, "ip", json_hex(hit->ip));
	json_place(j, p);
	json_object_set_new(j, "access", json_string(access_names[hit->access & 3]));
	json_object_set_new(j, "address", json_hex(hit->address));
	json_object_set_new(j, "len", json_integer(hit->len));
	json_object_set_new(j, "old", json_value(hit->old_value, hit->old_known));
	json_object_set_new(j, "new", json_value(hit->new_value,
						 hit->value_when != TRAPLINE_VALUE_NONE));
	json_object_set_new(j, "value_when",
			    json_string(hit->value_when < 3 ? value_names[hit->value_when] :
							      "none"));
	json_object_set_new(j, "value", json_typed(o, s, hit));
	if (hit->async)
		json_object_set_new(j, "async", json_true());
	json_object_set_new(j, "stack", stack);
	json_line(o->json, j);
}

/* The frames of a record, or those a callback brought. */
static size_t hit_frames(struct symbols *s, const struct trapline_hit *hit, uint64_t *frames)
{
	uint64_t regs[REGISTERS];
	size_t n = hit->stack_count < WATCH_FRAMES_MAX ? hit->stack_count : WATCH_FRAMES_MAX;

	for (unsigned int i = 0; i < REGISTERS; i++) {
		if (trapline_hit_register(hit, i, &regs[i]) < 0) {
			memcpy(frames, hit->stack, n * sizeof(*frames));
			return n;
		}
	}
	return symbols_unwind(s, regs, REGISTERS, hit->stack_bytes, hit->stack_bytes_len, hit->sp,
			      frames, WATCH_FRAMES_MAX);
}

void watch_output_hit(struct watch_output *o, struct symbols *s, const struct trapline_hit *hit)
{
	uint64_t frames[WATCH_FRAMES_MAX];
	size_t n = o->stack ? hit_frames(s, hit, frames) : 0;
	bool after = hit->done && !hit->async;
	struct place p;

	watch_place(s, hit->ip, after, &p);
	watch_output_clear_status(o);
	if (o->text) {
		text_hit(o, s, hit, &p);
		text_stack(o, s, frames, n, after);
	}
	if (o->json)
		json_hit(o, s, hit, &p, json_stack(s, frames, n, after));
}
