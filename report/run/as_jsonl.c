/* SPDX-License-Identifier: MIT */
/* as_jsonl.c - hits and the summary of a run, one JSON object a line. */
#include "report/run/groups.h"
#include "report/run/run_watch.h"

#include <stdlib.h>
#include <string.h>

static const char *const access_names[] = { "", "r", "w", "rw", "x" };
static const char *const value_names[] = { "none", "hit", "later" };

static json_t *json_value(uint64_t value, bool is_known)
{
	return is_known ? run_json_count(value) : json_null();
}

json_t *run_jsonl_frames(const struct run_frame *frames, size_t count)
{
	json_t *stack = json_array();

	for (size_t i = 0; i < count; i++) {
		json_t *frame = json_object();
		json_object_set_new(frame, "ip", run_json_hex(frames[i].ip));
		run_json_place(frame, &frames[i].place);
		if (frames[i].is_inlined)
			json_object_set_new(frame, "inlined", json_true());
		json_array_append_new(stack, frame);
	}
	return stack;
}

json_t *run_jsonl_hit_begin(const struct run_hit *hit)
{
	json_t *j = json_object();

	json_object_set_new(j, "type", json_string("hit"));
	json_object_set_new(j, "time", run_json_time(hit->unix_ns));
	json_object_set_new(j, "time_ns", run_json_count(hit->time_ns));
	json_object_set_new(j, "pid", json_integer(hit->pid));
	json_object_set_new(j, "tid", json_integer(hit->tid));
	json_object_set_new(j, "thread", run_json_text(hit->thread));
	json_object_set_new(j, "ip", run_json_hex(hit->ip));
	run_json_place(j, &hit->place);
	json_object_set_new(j, "access",
			    json_string(hit->access < 5 ? access_names[hit->access] : ""));
	json_object_set_new(j, "address", run_json_hex(hit->address));
	return j;
}

void run_jsonl_hit(FILE *f, const struct run_hit *hit)
{
	json_t *j = run_jsonl_hit_begin(hit);

	json_object_set_new(j, "len", json_integer(hit->len));
	json_object_set_new(j, "old", json_value(hit->old_value, hit->old_known));
	json_object_set_new(j, "new", json_value(hit->new_value, hit->value_when != 0));
	json_object_set_new(j, "value_when",
			    json_string(hit->value_when < 3 ? value_names[hit->value_when] :
							      "none"));
	json_object_set(j, "value", hit->value ? hit->value : json_null());
	if (hit->is_async)
		json_object_set_new(j, "async", json_true());
	if (hit->via)
		json_object_set_new(j, "via", run_json_text(hit->via));
	if (hit->is_by_kernel)
		json_object_set_new(j, "syscall", run_json_text(hit->syscall));
	if (hit->of)
		json_object_set_new(j, hit->is_object ? "object" : "what", run_json_text(hit->of));
	json_object_set_new(j, "stack", run_jsonl_frames(hit->frames, hit->frame_count));
	run_jsonl_line(f, j);
}

/* Machine code at a probe rejects without a count: nothing is known, which is not 0. */
static bool is_counted(const struct run_end *end, const struct run_count *count)
{
	return !end->evaluated_in || strcmp(end->evaluated_in, "code") != 0 ||
	       strcmp(count->name, "condition") != 0;
}

static json_t *json_counts(const struct run_end *end, bool is_lost, uint64_t *sum)
{
	json_t *j = json_object();

	*sum = 0;
	for (size_t i = 0; i < end->count_count; i++) {
		if (end->counts[i].is_lost != is_lost)
			continue;
		*sum += end->counts[i].value;
		json_object_set_new(j, end->counts[i].name,
				    is_counted(end, &end->counts[i]) ?
					    run_json_count(end->counts[i].value) :
					    json_null());
	}
	return j;
}

json_t *run_jsonl_sites(const struct tally *tally)
{
	size_t n;
	struct tally_sum *sums = tally_sums(tally, false, &n);
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++) {
		json_t *j = json_object();
		json_object_set_new(j, "ip", run_json_hex(sums[i].ip));
		run_json_place(j, &sums[i].place);
		json_object_set_new(j, "hits", run_json_count(sums[i].hits));
		json_object_set_new(j, "threads", run_json_count(sums[i].others));
		json_array_append_new(list, j);
	}
	free(sums);
	return list;
}

static json_t *jsonl_numbered(const struct tally *tally, const char *number, const char *name,
			      bool has_sites)
{
	size_t n;
	struct tally_sum *sums = tally_sums(tally, true, &n);
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++) {
		json_t *j = json_object();
		json_object_set_new(j, number, json_integer(sums[i].tid));
		json_object_set_new(j, name, run_json_text(sums[i].thread));
		json_object_set_new(j, "hits", run_json_count(sums[i].hits));
		if (has_sites)
			json_object_set_new(j, "sites", run_json_count(sums[i].others));
		json_array_append_new(list, j);
	}
	free(sums);
	return list;
}

json_t *run_jsonl_threads(const struct tally *tally)
{
	return jsonl_numbered(tally, "tid", "thread", true);
}

json_t *run_jsonl_processes(const struct tally *processes)
{
	return jsonl_numbered(processes, "pid", "process", false);
}

void run_jsonl_totals(json_t *j, const struct run_end *end)
{
	uint64_t rejected;
	uint64_t lost;
	json_t *rejected_by = json_counts(end, false, &rejected);
	json_t *lost_by = json_counts(end, true, &lost);

	json_object_set_new(j, "taken", run_json_count(end->taken));
	json_object_set_new(j, "rejected", run_json_count(rejected));
	json_object_set_new(j, "rejected_by", rejected_by);
	json_object_set_new(j, "condition_faults", run_json_count(end->condition_faults));
	json_object_set_new(j, "evaluated_in", run_json_text(end->evaluated_in));
	json_object_set_new(j, "delivered", run_json_count(end->delivered));
	json_object_set_new(j, "lost", lost_by);
	json_object_set_new(j, "unread", run_json_count(end->unread));
	json_object_set_new(j, "unseen_changes", run_json_count(end->unseen_changes));
	json_object_set_new(j, "stopped", json_boolean(end->is_stopped));
	json_object_set_new(j, "mechanism", run_json_text(end->mechanism));
	json_object_set_new(j, "cost_ns",
			    end->cost_ns >= 0 ? json_integer((json_int_t)end->cost_ns) :
						json_null());
	json_object_set_new(j, "duration_ns", run_json_count(end->duration_ns));
	json_object_set_new(j, "pauses", run_json_count(end->pauses));
	json_object_set_new(j, "paused_ns", run_json_count(end->paused_ns));
	json_object_set_new(j, "while_off", run_json_count(end->while_off));
	json_object_set_new(j, "rests", run_json_count(end->rests));
	json_object_set_new(j, "rested_ns", run_json_count(end->rested_ns));
	json_object_set_new(j, "budget_percent",
			    end->budget_ppm ? json_real((double)end->budget_ppm / 10000) :
					      json_null());
	if (end->groups)
		json_object_set_new(j, "groups", run_groups_json(end->groups));
}

void run_jsonl_end(FILE *f, const struct run_info *info, const struct run_end *end,
		   const struct tally *tally)
{
	json_t *j = json_object();

	json_object_set_new(j, "type", json_string("summary"));
	json_object_set_new(j, "what", run_json_text(info->what));
	json_object_set_new(j, "address",
			    info->is_several ? json_null() : run_json_hex(info->address));
	json_object_set_new(j, "len", json_value(info->len, info->len != 0));
	json_object_set_new(j, "value_type", run_json_text(info->value_type));
	json_object_set_new(j, "ended", run_json_text(end->reason));
	json_object_set_new(j, "command", run_json_text(end->command));
	run_jsonl_totals(j, end);
	json_object_set_new(j, "sites", run_jsonl_sites(tally));
	json_object_set_new(j, "threads", run_jsonl_threads(tally));
	run_jsonl_watch_end(j, end);
	run_jsonl_line(f, j);
}
