/* SPDX-License-Identifier: MIT */
/*
 * as_html.c - a run as a page. hits.js reads what is made here.
 *
 * Each location, stack and text is stored once, and columns of hits refer to them by index. The
 * page has at most HTML_HITS_MAX hits, and HTML_BYTES_MAX of different texts and stacks; it reports
 * it if it ends there.
 */
#include "report/page/page.h"
#include "report/run/run_file.h"
#include "report/run/run_text.h"
#include "report/run/run_watch.h"
#include "report/safe/clean.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HTML_HITS_MAX 200000u
#define HTML_BYTES_MAX (32u << 20)
#define NUMBER_EXACT 9007199254740992.0 /* 2^53: JavaScript's numbers are doubles */

enum column {
	COLUMN_TIME, /* nanoseconds after the hit before */
	COLUMN_THREAD,
	COLUMN_PLACE, /* the variable or function that was hit */
	COLUMN_CODE,  /* of a call its caller */
	COLUMN_TEXT,
	COLUMN_NUMBER, /* the value, or the nanoseconds that a call took */
	COLUMN_STACK,
	/* A page without them has no such column. */
	COLUMN_KEY,    /* the text by which calls are grouped */
	COLUMN_RESULT, /* of a call, where it is a number */
	COLUMN_BY,     /* the kernel */
	COLUMN_LATER,  /* the value was read after the hit */
	COLUMNS
};

static const char *const column_names[COLUMNS] = { "time",   "thread", "place", "code",
						   "text",   "number", "stack", "key",
						   "result", "by",     "later" };

struct html_data {
	const struct run_session *session;
	struct page_pool places;
	struct page_pool codes;
	struct page_pool stacks;
	struct page_pool threads;
	struct page_pool texts;
	json_t *columns[COLUMNS];
	bool is_used[COLUMNS];
	uint64_t before_ns;
};

static void put(struct html_data *d, enum column c, json_t *value)
{
	json_array_append_new(d->columns[c], value);
}

static void put_index(struct html_data *d, enum column c, size_t index)
{
	json_array_append_new(d->columns[c], json_integer((json_int_t)index));
	d->is_used[c] = true;
}

/* What is not a number for JavaScript is null. Whole numbers are short. */
static void put_number(struct html_data *d, enum column c, bool is_known, double number)
{
	if (!is_known || !isfinite(number)) {
		put(d, c, json_null());
		return;
	}
	d->is_used[c] = true;
	put(d, c,
	    fabs(number) < NUMBER_EXACT && trunc(number) == number ?
		    json_integer((json_int_t)number) :
		    json_real(number));
}

static void put_text(struct html_data *d, enum column c, const char *text)
{
	if (text && text[0])
		put_index(d, c, page_pool_text(&d->texts, text));
	else
		put(d, c, json_null());
}

/* [name, file:line, module, is inlined] */
static json_t *code_json(const struct run_frame *frame)
{
	const struct place *p = &frame->place;
	json_t *j = json_array();
	char text[400];

	run_place_text(p, frame->ip, text, sizeof(text));
	json_array_append_new(j, run_json_text(text));
	snprintf(text, sizeof(text), "%s:%d", p->file ? p->file : "", p->line);
	json_array_append_new(j, run_json_text(p->file ? text : ""));
	json_array_append_new(j, run_json_text(p->module ? p->module : ""));
	json_array_append_new(j, json_integer(frame->is_inlined));
	return j;
}

/* A recording has each location once, so its text is always the same pointer. */
static size_t add_code(struct html_data *d, const struct run_frame *frame)
{
	const struct place *p = &frame->place;
	char key[100];
	size_t at;

	snprintf(key, sizeof(key), "%" PRIx64 " %" PRIxPTR " %" PRIx64 " %d %d", frame->ip,
		 (uintptr_t)p->function, p->offset, p->line, frame->is_inlined);
	return page_pool_find(&d->codes, key, &at) ?
		       at :
		       page_pool_put(&d->codes, key, code_json(frame));
}

static size_t add_thread(struct html_data *d, const struct run_hit *hit)
{
	json_t *j;
	char key[64];
	size_t at;

	snprintf(key, sizeof(key), "%d %d %s", hit->pid, hit->tid, hit->thread);
	if (page_pool_find(&d->threads, key, &at))
		return at;
	j = json_array();
	json_array_append_new(j, run_json_text(hit->thread));
	json_array_append_new(j, json_integer(hit->tid));
	json_array_append_new(j, json_integer(hit->pid));
	return page_pool_put(&d->threads, key, j);
}

static size_t add_stack(struct html_data *d, const struct run_hit *hit)
{
	char key[RUN_FRAMES_MAX * 12 + 1] = "";
	size_t codes[RUN_FRAMES_MAX];
	size_t used = 0;
	size_t at;

	for (size_t i = 0; i < hit->frame_count && i < RUN_FRAMES_MAX; i++) {
		codes[i] = add_code(d, &hit->frames[i]);
		used += (size_t)snprintf(key + used, sizeof(key) - used, "%zx ",
					 codes[i] & 0xffffffffu);
	}
	if (page_pool_find(&d->stacks, key, &at))
		return at;
	json_t *j = json_array();
	for (size_t i = 0; i < hit->frame_count && i < RUN_FRAMES_MAX; i++)
		json_array_append_new(j, json_integer((json_int_t)codes[i]));
	return page_pool_put(&d->stacks, key, j);
}

static void add_call(struct html_data *d, const struct run_hit *hit)
{
	const struct run_call *call = hit->call;
	const struct run_site *site = &d->session->calls->site[call->site];
	struct run_frame caller = { .ip = call->caller, .place = call->caller_place };
	struct run_frame own = { .ip = hit->ip, .place = hit->place };
	char text[420];

	run_call_short_text(d->session->calls, call, text, sizeof(text));
	clean_text(text);
	put_index(d, COLUMN_PLACE, page_pool_text(&d->places, site->name));
	put_index(d, COLUMN_CODE, add_code(d, call->caller ? &caller : &own));
	put_number(d, COLUMN_NUMBER, call->has_result, (double)call->duration_ns);
	put_text(d, COLUMN_KEY, text);
	put_number(d, COLUMN_RESULT, call->has_result && json_is_number(call->result_json),
		   json_number_value(call->result_json));
	put(d, COLUMN_BY, json_null());
}

static void add_access(struct html_data *d, const struct run_hit *hit)
{
	struct run_frame site = { .ip = hit->ip, .place = hit->place };
	const char *place = hit->of ? hit->of : d->session->info.what;
	double number = 0;
	bool is_number = run_hit_number(hit, &number);
	char by[100];

	run_hit_by_text(hit, by, sizeof(by));
	put_index(d, COLUMN_PLACE, page_pool_text(&d->places, place));
	put_index(d, COLUMN_CODE, add_code(d, &site));
	put_number(d, COLUMN_NUMBER, is_number, number);
	put(d, COLUMN_KEY, json_null());
	put(d, COLUMN_RESULT, json_null());
	put_text(d, COLUMN_BY, by);
}

static void add_hit(struct html_data *d, const struct run_hit *hit)
{
	put(d, COLUMN_TIME, json_integer((json_int_t)(hit->time_ns - d->before_ns)));
	d->before_ns = hit->time_ns;
	put_index(d, COLUMN_THREAD, add_thread(d, hit));
	put_index(d, COLUMN_TEXT, page_pool_text(&d->texts, hit->change));
	put_index(d, COLUMN_STACK, add_stack(d, hit));
	put(d, COLUMN_LATER, json_integer(hit->value_when == 2));
	d->is_used[COLUMN_LATER] |= hit->value_when == 2;
	if (hit->call)
		add_call(d, hit);
	else
		add_access(d, hit);
}

/* The same lines as in the text. */
static json_t *notes_json(const struct run_end *end)
{
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);

	if (!f)
		return json_null();
	run_text_not_seen(f, end);
	run_text_watch_end(f, end);
	json_t *j = fclose(f) ? json_null() : run_json_text(text);
	free(text);
	return j;
}

static json_t *run_json(const struct run_session *s)
{
	const struct run_info *info = &s->info;
	const struct run_end *end = &s->end;
	json_t *counts = json_array();
	json_t *j = json_object();

	for (size_t i = 0; i < end->count_count; i++) {
		json_t *c = json_array();
		json_array_append_new(c, run_json_text(end->counts[i].name));
		json_array_append_new(c, json_integer((json_int_t)end->counts[i].value));
		json_array_append_new(c, json_integer(end->counts[i].is_lost));
		json_array_append_new(counts, c);
	}
	json_object_set_new(j, "what", run_json_text(info->what));
	json_object_set_new(j, "is_calls", json_boolean(s->calls != NULL));
	json_object_set_new(j, "description",
			    run_json_text(s->calls ? s->calls->description : NULL));
	json_object_set_new(j, "type", run_json_text(info->value_type));
	json_object_set_new(j, "process", run_json_text(info->process));
	json_object_set_new(j, "pid", json_integer(info->pid));
	json_object_set_new(j, "address", run_json_hex(info->address));
	json_object_set_new(j, "len", json_integer((json_int_t)info->len));
	/* A recording without an offset has no time of day. */
	json_object_set_new(j, "has_clock", json_boolean(info->clock_offset_ns != 0));
	json_object_set_new(j, "started_ms",
			    json_real((double)(info->started_ns + info->clock_offset_ns) / 1e6));
	json_object_set_new(j, "duration_us", json_real((double)end->duration_ns / 1e3));
	json_object_set_new(j, "reason", run_json_text(end->reason));
	json_object_set_new(j, "mechanism", run_json_text(end->mechanism));
	json_object_set_new(j, "cost_ns", json_real(end->cost_ns));
	json_object_set_new(j, "taken", json_integer((json_int_t)end->taken));
	json_object_set_new(j, "delivered", json_integer((json_int_t)end->delivered));
	json_object_set_new(j, "paused_us",
			    json_real((double)(end->paused_ns + end->rested_ns) / 1e3));
	json_object_set_new(j, "counts", counts);
	json_object_set_new(j, "is_several", json_boolean(info->is_several));
	if (!s->calls)
		json_object_set_new(j, "notes", notes_json(end));
	return j;
}

static json_t *columns_json(struct html_data *d)
{
	json_t *j = json_object();

	for (int c = 0; c < COLUMNS; c++) {
		if (c < COLUMN_KEY || d->is_used[c])
			json_object_set_new(j, column_names[c], d->columns[c]);
		else
			json_decref(d->columns[c]);
	}
	return j;
}

static json_t *data_json(const struct run_session *s)
{
	struct html_data d = { .session = s,
			       .places = page_pool_new(),
			       .codes = page_pool_new(),
			       .stacks = page_pool_new(),
			       .threads = page_pool_new(),
			       .texts = page_pool_new(),
			       .before_ns = s->info.started_ns };
	json_t *j = json_object();

	for (int c = 0; c < COLUMNS; c++)
		d.columns[c] = json_array();
	for (size_t i = 0; i < s->hit_count && i < HTML_HITS_MAX &&
			   d.texts.bytes + d.stacks.bytes < HTML_BYTES_MAX;
	     i++)
		add_hit(&d, &s->hits[i]);
	json_object_set_new(j, "kind", json_string("run"));
	json_object_set_new(j, "run", run_json(s));
	json_object_set_new(j, "total", json_integer((json_int_t)s->hit_count));
	json_object_set_new(j, "columns", columns_json(&d));
	json_object_set_new(j, "places", page_pool_take(&d.places));
	json_object_set_new(j, "codes", page_pool_take(&d.codes));
	json_object_set_new(j, "stacks", page_pool_take(&d.stacks));
	json_object_set_new(j, "threads", page_pool_take(&d.threads));
	json_object_set_new(j, "texts", page_pool_take(&d.texts));
	return j;
}

void run_html(FILE *f, const struct run_session *s)
{
	page_write(f, data_json(s));
}
