/* SPDX-License-Identifier: MIT */
/*
 * as_trace.c - trace events in JSON, for ui.perfetto.dev and chrome://tracing.
 *
 * Each hit is an instant in the track of its thread, with its stack; a call whose return was seen
 * is a slice as long as it took. A value that is a number is a
 * counter track of the process as well. Times are microseconds from the start of the run.
 */
#include "report/run/run_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static double microseconds(const struct run_session *s, const struct run_hit *hit)
{
	return (double)(int64_t)(hit->time_ns - s->info.started_ns) / 1e3;
}

static void trace_put(FILE *f, json_t *event, bool *is_first)
{
	fputs(*is_first ? "\n" : ",\n", f);
	*is_first = false;
	json_dumpf(event, f, JSON_COMPACT | JSON_ENSURE_ASCII);
	json_decref(event);
}

static json_t *event_new(const struct run_session *s, const char *phase, const char *name,
			 const struct run_hit *hit)
{
	json_t *j = json_object();

	json_object_set_new(j, "ph", json_string(phase));
	json_object_set_new(j, "name", run_json_text(name));
	json_object_set_new(j, "pid", json_integer(s->info.pid));
	if (hit) {
		json_object_set_new(j, "tid", json_integer(hit->tid));
		json_object_set_new(j, "ts", json_real(microseconds(s, hit)));
	}
	return j;
}

static json_t *named(const char *name)
{
	json_t *args = json_object();

	json_object_set_new(args, "name", run_json_text(name));
	return args;
}

/* Threads by id, with the last name that is known of each. */
static void put_threads(FILE *f, const struct run_session *s, bool *is_first)
{
	struct tally tally = { 0 };
	size_t n;

	for (size_t i = 0; i < s->hit_count; i++)
		tally_add(&tally, &s->hits[i]);
	struct tally_sum *threads = tally_sums(&tally, true, &n);
	for (size_t i = 0; i < n; i++) {
		json_t *j = event_new(s, "M", "thread_name", NULL);
		json_object_set_new(j, "tid", json_integer(threads[i].tid));
		json_object_set_new(j, "args", named(threads[i].thread));
		trace_put(f, j, is_first);
	}
	free(threads);
	tally_free(&tally);
}

static json_t *stack_text(const struct run_hit *hit)
{
	json_t *list = json_array();

	for (size_t i = 0; i < hit->frame_count; i++) {
		const struct run_frame *frame = &hit->frames[i];
		char name[300];
		char line[400];
		run_place_text(&frame->place, frame->ip, name, sizeof(name));
		snprintf(line, sizeof(line), frame->place.file ? "%s (%.80s:%d)" : "%s", name,
			 frame->place.file ? basename(frame->place.file) : "", frame->place.line);
		json_array_append_new(list, run_json_text(line));
	}
	return list;
}

static void trace_put_call(FILE *f, const struct run_session *s, const struct run_hit *hit,
			   bool *is_first)
{
	const struct run_call *call = hit->call;
	json_t *j =
		event_new(s, call->has_result ? "X" : "i", s->calls->site[call->site].name, hit);
	json_t *args = json_object();
	char from[300];

	if (call->has_result)
		json_object_set_new(j, "dur", json_real((double)call->duration_ns / 1e3));
	else
		json_object_set_new(j, "s", json_string("t"));
	json_object_set_new(j, "cat", json_string("call"));
	run_place_text_with_line(&call->caller_place, call->caller, from, sizeof(from));
	if (call->caller)
		json_object_set_new(args, "from", run_json_text(from));
	if (call->args)
		json_object_set_new(args, "args", run_json_text(call->args));
	if (call->has_result && call->result[0])
		json_object_set_new(args, "ret", run_json_text(call->result));
	if (hit->frame_count)
		json_object_set_new(args, "stack", stack_text(hit));
	json_object_set_new(j, "args", args);
	trace_put(f, j, is_first);
}

static void put_hit(FILE *f, const struct run_session *s, const struct run_hit *hit, bool *is_first)
{
	if (hit->call) {
		trace_put_call(f, s, hit, is_first);
		return;
	}
	json_t *j = event_new(s, "i", hit->change, hit);
	json_t *args = json_object();
	char site[300];
	char by[100];

	run_place_text(&hit->place, hit->ip, site, sizeof(site));
	json_object_set_new(j, "s", json_string("t"));
	json_object_set_new(j, "cat", json_string("hit"));
	json_object_set_new(args, "what",
			    run_json_text(hit->of && !hit->is_object ? hit->of : s->info.what));
	if (hit->of && hit->is_object)
		json_object_set_new(args, "object", run_json_text(hit->of));
	run_hit_by_text(hit, by, sizeof(by));
	if (by[0])
		json_object_set_new(args, "by", run_json_text(by));
	json_object_set_new(args, "site", run_json_text(site));
	if (hit->place.file)
		json_object_set_new(args, "file", run_json_text(hit->place.file));
	if (hit->place.line)
		json_object_set_new(args, "line", json_integer(hit->place.line));
	json_object_set(args, "value", hit->value ? hit->value : json_null());
	if (hit->frame_count)
		json_object_set_new(args, "stack", stack_text(hit));
	json_object_set_new(j, "args", args);
	trace_put(f, j, is_first);
}

bool run_hit_number(const struct run_hit *hit, double *out)
{
	const json_t *new = hit->value ? json_object_get(hit->value, "new") : NULL;

	if (hit->call)
		return false;
	if (!hit->value_when || json_is_object(new))
		return false;
	if (json_is_number(new)) {
		*out = json_number_value(new);
		return true;
	}
	/* Constants and truth values are numbers too; pointers and texts are not. */
	const char *type = hit->value ? json_string_value(json_object_get(hit->value, "type")) : "";
	if (!type || strchr(type, '*') || strchr(type, '['))
		return false;
	*out = (double)hit->new_value;
	return hit->new_value <= INT64_MAX;
}

static void trace_put_value(FILE *f, const struct run_session *s, const struct run_hit *hit,
			    bool *is_first)
{
	double number;
	char track[300];

	if (!run_hit_number(hit, &number))
		return;
	/* Each expression and each object has a curve of its own. */
	if (hit->of && !hit->is_object)
		snprintf(track, sizeof(track), "%s", hit->of);
	else
		snprintf(track, sizeof(track), "%s%s%s", s->info.what, hit->of ? " of " : "",
			 hit->of ? hit->of : "");
	json_t *j = event_new(s, "C", track, hit);
	json_t *args = json_object();
	json_object_set_new(args, "value", json_real(number));
	json_object_set_new(j, "args", args);
	trace_put(f, j, is_first);
}

void run_trace(FILE *f, const struct run_session *s)
{
	bool is_first = true;
	json_t *process = event_new(s, "M", "process_name", NULL);

	fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", f);
	json_object_set_new(process, "args", named(s->info.process ? s->info.process : "process"));
	trace_put(f, process, &is_first);
	put_threads(f, s, &is_first);
	for (size_t i = 0; i < s->hit_count; i++) {
		put_hit(f, s, &s->hits[i], &is_first);
		trace_put_value(f, s, &s->hits[i], &is_first);
	}
	fputs("\n]}\n", f);
}
