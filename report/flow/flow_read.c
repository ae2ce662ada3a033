/* SPDX-License-Identifier: MIT */
/*
 * flow_read.c - the JSON lines of `trapline flow` become a report again, as flow_json.c wrote them.
 *
 * They may come from a stranger: a line that is not built as a flow ends the file there.
 */
#include "base/grow.h"
#include "report/finding/death.h"
#include "report/flow/flow_report_priv.h"
#include "report/safe/clean.h"
#include "report/safe/line.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES (4u << 20)

/* ---- values ---- */

/* What is larger than JSON's integers is written as hexadecimal text. */
static uint64_t number_in(const json_t *j, const char *name)
{
	const json_t *value = json_object_get(j, name);

	if (json_is_string(value))
		return strtoull(json_string_value(value), NULL, 16);
	return (uint64_t)json_integer_value(value);
}

static int fd_in(const json_t *j)
{
	const json_t *value = json_object_get(j, "fd");

	return json_is_integer(value) ? (int)json_integer_value(value) : -1;
}

static void text_in(const json_t *j, const char *name, char *out, size_t n)
{
	const char *text = json_string_value(json_object_get(j, name));

	snprintf(out, n, "%s", text ? text : "");
	clean_text(out);
}

/* The number of a name; n: it is not one of them. */
static size_t name_in(const json_t *j, const char *name, const char *const *names, size_t n)
{
	const char *text = json_string_value(json_object_get(j, name));
	size_t i = 0;

	while (i < n && (!text || strcmp(text, names[i]) != 0))
		i++;
	return i;
}

/* ---- locations ---- */

static void where_in(const json_t *j, struct flow_where *w)
{
	text_in(j, "function", w->name, sizeof(w->name));
	text_in(j, "via", w->via, sizeof(w->via));
	w->in.place = (struct place){ .module = json_string_value(json_object_get(j, "module")),
				      .file = json_string_value(json_object_get(j, "file")),
				      .line = (int)json_integer_value(json_object_get(j, "line")) };
}

static int add_known(struct flow_report *r, const json_t *j, struct flow_stack *stack)
{
	const json_t *frames = json_object_get(j, "stack");
	const size_t n = json_array_size(frames);

	if (n > FLOW_STACK_MAX)
		return -EBADMSG;
	if (grow_room(r->known, r->known_count, r->known_room))
		return -ENOMEM;
	struct flow_known *k = &r->known[r->known_count];
	*k = (struct flow_known){ .frames = calloc(n + 1, sizeof(*k->frames)), .count = n };
	if (!k->frames)
		return -ENOMEM;
	*stack = (struct flow_stack){ .count = 1,
				      .tid = (int32_t)number_in(j, "tid"),
				      .frames = { r->known_count++ } };
	where_in(j, &k->where);
	for (size_t i = 0; i < n; i++) {
		const json_t *frame = json_array_get(frames, i);
		struct run_frame *f = &k->frames[i];

		f->ip = number_in(frame, "ip");
		f->is_inlined = json_is_true(json_object_get(frame, "inlined"));
		f->place.file = json_string_value(json_object_get(frame, "file"));
		f->place.line = (int)json_integer_value(json_object_get(frame, "line"));
		f->place.function = json_string_value(json_object_get(frame, "function"));
		f->place.offset = number_in(frame, "offset");
		f->place.module = json_string_value(json_object_get(frame, "module"));
		f->place.module_offset = number_in(frame, "module_offset");
	}
	return 0;
}

/* ---- a flow ---- */

static int read_source(struct flow_report *r, const json_t *from, uint32_t *number)
{
	const json_int_t n = json_integer_value(json_object_get(from, "source"));
	const size_t origin = name_in(from, "origin", flow_origin_names, FLOW_ORIGINS);

	if (n < 1 || n >= (json_int_t)FLOW_SOURCES || origin == FLOW_ORIGINS)
		return -EBADMSG;
	*number = (uint32_t)n;
	struct flow_source *s = &r->sources[n];
	if (s->ready)
		return 0;
	s->ready = 1;
	s->origin = (uint8_t)origin;
	s->pid = (int32_t)number_in(from, "pid");
	s->fd = fd_in(from);
	s->bytes = number_in(from, "bytes");
	s->offset = number_in(from, "offset");
	s->time_ns = number_in(from, "time_ns");
	text_in(from, "name", s->name, sizeof(s->name));
	text_in(from, "path", s->open.path, sizeof(s->open.path));
	if (*number >= r->source_end)
		r->source_end = *number + 1;
	return add_known(r, from, &s->stack);
}

/* A step has a higher number than the one before it: so a path ends. */
static int read_path(struct flow_report *r, const json_t *path, uint32_t source, uint32_t *step)
{
	*step = 0;
	for (size_t i = 0; i < json_array_size(path); i++) {
		const json_t *j = json_array_get(path, i);
		const json_int_t n = json_integer_value(json_object_get(j, "step"));
		const char *kind = json_string_value(json_object_get(j, "kind"));

		if (n <= (json_int_t)*step || n >= (json_int_t)FLOW_STEPS || !kind)
			return -EBADMSG;
		struct flow_step *s = &r->steps[n];
		if (!s->ready) {
			*s = (struct flow_step){ .ready = 1,
						 .parent = *step,
						 .source = source,
						 .grade = strcmp(kind, "copy") != 0 ?
								  FLOW_GRADE_B :
								  FLOW_GRADE_A };
			int err = add_known(r, j, &s->stack);

			if (err)
				return err;
		}
		*step = (uint32_t)n;
		if (*step >= r->step_end)
			r->step_end = *step + 1;
	}
	return 0;
}

static int read_record(const json_t *j, struct flow_record *record)
{
	const json_t *to = json_object_get(j, "to");
	const size_t kind = name_in(j, "kind", flow_kind_names, FLOW_KINDS);
	const size_t grade = name_in(j, "grade", flow_grade_names, FLOW_GRADES);
	const size_t memory = name_in(to, "memory", flow_memory_names, FLOW_MEMORIES);

	if (kind == FLOW_KINDS || grade == FLOW_GRADES || !json_is_object(to) ||
	    (kind == FLOW_RESIDUE && memory == FLOW_MEMORIES))
		return -EBADMSG;
	record->ready = 1;
	record->kind = (uint8_t)kind;
	record->grade = (uint8_t)grade;
	record->memory = kind == FLOW_RESIDUE ? (uint8_t)memory : FLOW_MEMORY_OTHER;
	record->was_native = json_is_false(json_object_get(to, "in_window"));
	record->pid = (int32_t)number_in(j, "pid");
	record->fd = fd_in(to);
	record->count = number_in(j, "count");
	record->time_ns = number_in(j, "time_ns");
	record->bytes = number_in(j, "bytes");
	record->offset = number_in(j, "offset");
	record->address = number_in(to, "address");
	record->block = number_in(json_object_get(to, "block"), "address");
	record->block_size = number_in(json_object_get(to, "block"), "size");
	text_in(to, "name", record->name, sizeof(record->name));
	text_in(to, "path", record->open.path, sizeof(record->open.path));
	return 0;
}

static int read_flow(struct flow_report *r, const json_t *j)
{
	struct flow_view *more = realloc(r->views, (r->count + 1) * sizeof(*more));
	struct flow_view *v;

	if (!more)
		return -ENOMEM;
	r->views = more;
	v = &r->views[r->count];
	memset(v, 0, sizeof(*v));
	int err = read_source(r, json_object_get(j, "from"), &v->record.source);
	if (!err)
		err = read_path(r, json_object_get(j, "steps"), v->record.source, &v->record.step);
	if (!err)
		err = read_record(j, &v->record);
	if (!err)
		err = add_known(r, json_object_get(j, "to"), &v->record.stack);
	if (err)
		return err;
	text_in(j, "fingerprint", v->fingerprint, sizeof(v->fingerprint));
	v->where = r->known[v->record.stack.frames[0]].where;
	r->shown = ++r->count;
	return 0;
}

static bool is_flow_summary(const json_t *j)
{
	return json_is_integer(json_object_get(json_object_get(j, "counters"), "windows")) &&
	       json_object_get(j, "residues");
}

/* -EBADMSG: it is not a line of trapline flow. */
static int read_line(struct flow_report *r, const char *text, size_t bytes)
{
	json_t *j = bytes <= LINE_BYTES ? json_loadb(text, bytes, JSON_ALLOW_NUL, NULL) : NULL;
	const char *type = json_string_value(json_object_get(j, "type"));
	int err = -EBADMSG;

	if (type && !strcmp(type, "summary") && is_flow_summary(j)) {
		json_decref(r->summary);
		r->summary = json_incref(j);
		err = 0;
	} else if (type && !strcmp(type, "flow")) {
		err = read_flow(r, j);
	} else if (type && !strcmp(type, "death")) {
		err = 0; /* printed as it is: flow_report_deaths() */
	}
	/* The report has pointers into it. */
	if (err || json_array_append(r->lines, j))
		err = err ? err : -ENOMEM;
	if (err == -EBADMSG && j)
		json_array_append(r->lines, j);
	json_decref(j);
	return err;
}

/* ---- a file ---- */

static int read_lines(struct flow_report *r, FILE *f)
{
	char *text = NULL;
	size_t size = 0;
	size_t lines = 0;
	ssize_t n;
	int err = 0;

	while (!err && (n = line_read(&text, &size, f, LINE_BYTES)) > 0) {
		lines++;
		if (text[strspn(text, " \t\r\n")])
			err = read_line(r, text, (size_t)n);
	}
	free(text);
	if (err == -EBADMSG) {
		r->bad_line = lines;
		err = 0;
	}
	return !err && ferror(f) ? -EIO : err;
}

int flow_report_read(const char *path, struct flow_report **out)
{
	struct flow_report *r = calloc(1, sizeof(*r));
	FILE *f = fopen(path, "re");
	int err = f ? 0 : -errno;

	if (r) {
		r->sources = calloc(FLOW_SOURCES, sizeof(*r->sources));
		r->steps = calloc(FLOW_STEPS, sizeof(*r->steps));
		r->lines = json_array();
		r->source_end = r->step_end = 1;
	}
	if (!err && (!r || !r->sources || !r->steps || !r->lines))
		err = -ENOMEM;
	if (!err)
		err = read_lines(r, f);
	if (!err && !r->count && !r->summary)
		err = -EBADMSG;
	if (f)
		fclose(f);
	if (err)
		flow_report_close(r);
	else
		*out = r;
	return err;
}

void flow_report_deaths(const struct flow_report *r, bool is_json, bool has_color, FILE *f)
{
	struct death death;

	for (size_t i = 0; i < json_array_size(r->lines); i++) {
		json_t *line = json_array_get(r->lines, i);

		if (!death_read_json(line, &death))
			continue;
		if (is_json)
			run_jsonl_line(f, json_incref(line));
		else
			death_print_text(&death, has_color, f);
	}
}

size_t flow_report_bad_line(const struct flow_report *r)
{
	return r->bad_line;
}

void flow_report_totals_read(const struct flow_report *r, struct flow_totals *out)
{
	const json_t *counters = json_object_get(r->summary, "counters");

	*out = (struct flow_totals){ .unfinished = number_in(r->summary, "unfinished"),
				     .suppressed = number_in(r->summary, "suppressed"),
				     .baselined = number_in(r->summary, "baselined") };
	for (int i = 0; i < FLOW_COUNTERS; i++)
		out->counters[i] = number_in(counters, flow_counter_names[i]);
	for (size_t i = 0; i < r->count; i++) {
		out->flows += r->views[i].record.kind != FLOW_RESIDUE;
		out->residues += r->views[i].record.kind == FLOW_RESIDUE;
	}
	out->sources = number_in(r->summary, "sources");
}
