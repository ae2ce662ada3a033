/* SPDX-License-Identifier: MIT */
/*
 * as_html.c - a run as one page, which needs no network: page.html with the data put in.
 *
 * Each place, stack and value is stored once, and hits refer to it by index. The data is JSON in an
 * element that is not a script. Every '<' in it is escaped, so that no name can end the element.
 */
#include "report/run/run_file.h"
#include "report/run/run_text.h"
#include "report/run/run_watch.h"
#include "report/safe/clean.h"

#include <stdlib.h>
#include <string.h>

static const char page[] =
#include "report/page.inc"
	;

#define DATA_MARK "@DATA@"

/* Values that are kept once: an array of them, and the index of each by its text. */
struct pool {
	json_t *items;
	json_t *index;
};

static struct pool pool_new(void)
{
	return (struct pool){ json_array(), json_object() };
}

/* Takes item. Returns its index. */
static size_t pool_add(struct pool *p, json_t *item)
{
	char *key = json_dumps(item, JSON_COMPACT | JSON_ENCODE_ANY);
	json_t *known = key ? json_object_get(p->index, key) : NULL;
	size_t at = json_array_size(p->items);

	if (known) {
		at = (size_t)json_integer_value(known);
		json_decref(item);
	} else {
		json_array_append_new(p->items, item);
		if (key)
			json_object_set_new(p->index, key, json_integer((json_int_t)at));
	}
	free(key);
	return at;
}

static json_t *pool_take(struct pool *p)
{
	json_decref(p->index);
	return p->items;
}

struct page_data {
	struct pool places;
	struct pool stacks;
	struct pool threads;
	struct pool changes;
};

static json_t *index_json(size_t index)
{
	return json_integer((json_int_t)index);
}

/* [name, file:line, module, is inlined] */
static size_t html_add_place(struct page_data *d, const struct run_frame *frame)
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
	return pool_add(&d->places, j);
}

/* The short text of a call, by which the page groups calls. The page finds values of data itself. */
static size_t add_short_text(struct page_data *d, const struct run_session *s,
			     const struct run_hit *hit)
{
	char text[420];

	run_call_short_text(s->calls, hit->call, text, sizeof(text));
	clean_text(text);
	return pool_add(&d->changes, run_json_text(text));
}

/* Of a call with its return how long it took, in microseconds; of data the value. */
static bool html_number_of(const struct run_hit *hit, double *out)
{
	if (!hit->call)
		return run_hit_number(hit, out);
	*out = (double)hit->call->duration_ns / 1e3;
	return hit->call->has_result;
}

/* Index in the texts, or null for none. */
static json_t *text_json(struct page_data *d, const char *text)
{
	return text && text[0] ? index_json(pool_add(&d->changes, run_json_text(text))) :
				 json_null();
}

/* The expression or object that it belongs to, and the system call that did it. */
static void add_origin(struct page_data *d, json_t *to, const struct run_hit *hit)
{
	char by[100];

	run_hit_by_text(hit, by, sizeof(by));
	if (!hit->of && !by[0])
		return;
	json_array_append_new(to, json_null());
	json_array_append_new(to, text_json(d, hit->of));
	json_array_append_new(to, text_json(d, by));
}

/*
 * [microseconds, thread, place, change, number or null, stack, read later, short text of a call or
 * null, of, by]; the last three only where there is one. A call's place is its caller.
 */
static json_t *hit_json(struct page_data *d, const struct run_session *s, const struct run_hit *hit)
{
	struct run_frame site = { .ip = hit->ip, .place = hit->place };
	json_t *thread = json_array();
	json_t *stack = json_array();
	json_t *j = json_array();
	double number;

	if (hit->call && hit->call->caller)
		site = (struct run_frame){ .ip = hit->call->caller,
					   .place = hit->call->caller_place };

	json_array_append_new(thread, run_json_text(hit->thread));
	json_array_append_new(thread, json_integer(hit->tid));
	for (size_t i = 0; i < hit->frame_count; i++)
		json_array_append_new(stack, index_json(html_add_place(d, &hit->frames[i])));
	json_array_append_new(
		j, json_real((double)(int64_t)(hit->time_ns - s->info.started_ns) / 1e3));
	json_array_append_new(j, index_json(pool_add(&d->threads, thread)));
	json_array_append_new(j, index_json(html_add_place(d, &site)));
	json_array_append_new(j, index_json(pool_add(&d->changes, run_json_text(hit->change))));
	json_array_append_new(j, html_number_of(hit, &number) ? json_real(number) : json_null());
	json_array_append_new(j, index_json(pool_add(&d->stacks, stack)));
	json_array_append_new(j, json_integer(hit->value_when == 2));
	if (hit->call)
		json_array_append_new(j, index_json(add_short_text(d, s, hit)));
	else
		add_origin(d, j, hit);
	return j;
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
	json_object_set_new(j, "started_ms",
			    json_real((double)(info->started_ns + info->clock_offset_ns) / 1e6));
	json_object_set_new(j, "duration_us", json_real((double)end->duration_ns / 1e3));
	json_object_set_new(j, "reason", run_json_text(end->reason));
	json_object_set_new(j, "mechanism", run_json_text(end->mechanism));
	json_object_set_new(j, "cost_ns", json_real(end->cost_ns));
	json_object_set_new(j, "taken", json_integer((json_int_t)end->taken));
	json_object_set_new(j, "delivered", json_integer((json_int_t)end->delivered));
	json_object_set_new(j, "paused_us", json_real((double)end->paused_ns / 1e3));
	json_object_set_new(j, "counts", counts);
	json_object_set_new(j, "is_several", json_boolean(info->is_several));
	if (!s->calls)
		json_object_set_new(j, "notes", notes_json(end));
	return j;
}

static json_t *data_json(const struct run_session *s)
{
	struct page_data d = { pool_new(), pool_new(), pool_new(), pool_new() };
	json_t *hits = json_array();
	json_t *j = json_object();

	for (size_t i = 0; i < s->hit_count; i++)
		json_array_append_new(hits, hit_json(&d, s, &s->hits[i]));
	json_object_set_new(j, "run", run_json(s));
	json_object_set_new(j, "hits", hits);
	json_object_set_new(j, "places", pool_take(&d.places));
	json_object_set_new(j, "stacks", pool_take(&d.stacks));
	json_object_set_new(j, "threads", pool_take(&d.threads));
	json_object_set_new(j, "changes", pool_take(&d.changes));
	return j;
}

static int put_escaped(const char *text, size_t n, void *arg)
{
	FILE *f = arg;

	for (size_t i = 0; i < n; i++) {
		if (text[i] == '<')
			fputs("\\u003c", f);
		else
			fputc(text[i], f);
	}
	return ferror(f) ? -1 : 0;
}

void run_html(FILE *f, const struct run_session *s)
{
	const char *mark = strstr(page, DATA_MARK);
	json_t *data = data_json(s);

	fwrite(page, (size_t)(mark - page), 1, f);
	json_dump_callback(data, put_escaped, f, JSON_COMPACT | JSON_ENSURE_ASCII);
	fputs(mark + strlen(DATA_MARK), f);
	json_decref(data);
}
