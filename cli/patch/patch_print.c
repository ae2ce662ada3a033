/* SPDX-License-Identifier: MIT */
/* patch_print.c - see patch_print.h. */
#include "cli/patch/patch_print.h"

#include "report/plural.h"
#include "report/run/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <trapline/tools.h>

static const char *phase_name(uint64_t phase)
{
	static const char *const names[] = {
		[TRAPLINE_PATCH_OLD] = "old",
		[TRAPLINE_PATCH_NEW] = "new",
		[TRAPLINE_PATCH_TO_NEW] = "to new",
		[TRAPLINE_PATCH_TO_OLD] = "to old",
	};

	return phase < sizeof(names) / sizeof(names[0]) ? names[phase] : "unknown";
}

static json_t *print_object(const char *type, const struct patch_settings *set)
{
	json_t *j = json_object();

	json_object_set_new(j, "type", json_string(type));
	json_object_set_new(j, "pid", json_integer(set->pid));
	return j;
}

static json_t *step_json(const struct patch_step *step)
{
	json_t *j = json_object();

	json_object_set_new(j, "name", run_json_text(step->record->name));
	json_object_set_new(j, "address", run_json_hex(step->found.address));
	json_object_set_new(j, "size", json_integer((json_int_t)step->found.size));
	json_object_set_new(j, "module", run_json_text(step->found.module));
	json_object_set_new(j, "replacement", run_json_text(step->by));
	json_object_set_new(j, "copies", run_json_text(step->found.copies));
	return j;
}

static void plan_json(const char *type, const struct patch_settings *set,
		      const struct patch_plan *plan, const struct patch_answer *answer)
{
	json_t *j = print_object(type, set);
	json_t *functions = json_array();
	json_t *old = json_array();

	for (size_t i = 0; i < plan->count; i++) {
		const struct patch_step *step = &plan->steps[i];
		if (step->record->kind == TRAPLINE_PATCH_RECORD_FUNCTION)
			json_array_append_new(functions, step_json(step));
		else if (step->record->kind == TRAPLINE_PATCH_RECORD_OLD)
			json_array_append_new(old, step_json(step));
	}
	json_object_set_new(j, "object", run_json_text(patch_object_name(plan->object)));
	json_object_set_new(j, "consistency", json_string(set->consistency));
	json_object_set_new(j, "functions", functions);
	json_object_set_new(j, "old", old);
	if (answer)
		json_object_set_new(j, "threads_pending",
				    json_integer((json_int_t)answer->pending));
	if (answer)
		json_object_set_new(j, "took_ns", json_integer((json_int_t)answer->took_ns));
	run_jsonl_line(stdout, j);
}

static void print_steps(const struct patch_plan *plan)
{
	for (size_t i = 0; i < plan->count; i++) {
		const struct patch_step *step = &plan->steps[i];
		if (step->record->kind == TRAPLINE_PATCH_RECORD_FUNCTION)
			printf("function %s (%s, %" PRIu64 " bytes) -> %s\n", step->record->name,
			       step->where, step->found.size,
			       step->by ? step->by : "a function without a name");
		else if (step->record->kind == TRAPLINE_PATCH_RECORD_OLD)
			printf("old %s (%s) at 0x%" PRIx64 "\n", step->record->name, step->where,
			       step->found.address);
	}
}

void patch_print_plan(const struct patch_settings *set, const struct patch_plan *plan)
{
	if (set->json) {
		plan_json("plan", set, plan, NULL);
		return;
	}
	print_steps(plan);
	printf("%s can be applied to process %d (%s, %zu function%s); nothing was changed\n",
	       patch_object_name(plan->object), set->pid, set->consistency, plan->functions,
	       plural(plan->functions));
}

void patch_print_applied(const struct patch_settings *set, const struct patch_plan *plan,
			 const struct patch_answer *answer)
{
	if (set->json) {
		plan_json("applied", set, plan, answer);
		return;
	}
	print_steps(plan);
	printf("applied %s to process %d in %.1f ms (%s, %zu function%s)\n",
	       patch_object_name(plan->object), set->pid, (double)answer->took_ns / 1e6,
	       set->consistency, plan->functions, plural(plan->functions));
}

void patch_print_undone(const struct patch_settings *set, const struct patch_answer *answer)
{
	json_t *j;

	if (!set->json) {
		printf("undid %s in process %d in %.1f ms; the object stays loaded\n", set->undo,
		       set->pid, (double)answer->took_ns / 1e6);
		return;
	}
	j = print_object("undone", set);
	json_object_set_new(j, "name", run_json_text(set->undo));
	json_object_set_new(j, "took_ns", json_integer((json_int_t)answer->took_ns));
	run_jsonl_line(stdout, j);
}

static json_t *kept_json(const struct patch_settings *set, const struct patch_answer *answer,
			 size_t index)
{
	const struct patch_kept *kept = &answer->kept[index];
	json_t *j = print_object("patch", set);
	json_t *functions = json_array();

	for (size_t i = 0; i < answer->listed_count; i++) {
		const struct patch_listed *l = &answer->listed[i];
		if (l->patch != index)
			continue;
		json_t *f = json_object();
		json_object_set_new(f, "name", run_json_text(l->name));
		json_object_set_new(f, "address", run_json_hex(l->address));
		json_object_set_new(f, "replacement", run_json_hex(l->replacement));
		json_array_append_new(functions, f);
	}
	json_object_set_new(j, "object", run_json_text(kept->name));
	json_object_set_new(j, "consistency",
			    json_string(patch_consistency_name(kept->consistency)));
	json_object_set_new(j, "phase", json_string(phase_name(kept->phase)));
	json_object_set_new(j, "since_ns", json_integer((json_int_t)kept->since_ns));
	json_object_set_new(j, "traps", json_integer((json_int_t)kept->traps));
	json_object_set_new(j, "threads_pending", json_integer((json_int_t)kept->pending));
	json_object_set_new(j, "waits", json_integer((json_int_t)kept->waits));
	json_object_set_new(j, "longest_wait_ns", json_integer((json_int_t)kept->longest_wait_ns));
	json_object_set_new(j, "functions", functions);
	return j;
}

static void kept_text(const struct patch_answer *answer, size_t index)
{
	const struct patch_kept *kept = &answer->kept[index];
	time_t seconds = (time_t)(kept->since_ns / 1000000000u);
	struct tm tm;
	char since[32] = "";

	if (localtime_r(&seconds, &tm))
		strftime(since, sizeof(since), "%Y-%m-%d %H:%M:%S", &tm);
	printf("%s since %s, %s", kept->name, since, patch_consistency_name(kept->consistency));
	if (kept->traps)
		printf(", %" PRIu64 " by an int3", kept->traps);
	if (kept->phase != TRAPLINE_PATCH_NEW)
		printf(", %s: %" PRIu64 " thread%s left, one is %" PRIu64, phase_name(kept->phase),
		       kept->pending, plural(kept->pending), kept->pending_tid);
	printf("\n");
	for (size_t i = 0; i < answer->listed_count; i++) {
		const struct patch_listed *l = &answer->listed[i];
		if (l->patch == index)
			printf("  %s at 0x%" PRIx64 " -> 0x%" PRIx64 "\n", l->name, l->address,
			       l->replacement);
	}
}

void patch_print_list(const struct patch_settings *set, const struct patch_answer *answer)
{
	for (size_t i = 0; i < answer->kept_count; i++) {
		if (set->json)
			run_jsonl_line(stdout, kept_json(set, answer, i));
		else
			kept_text(answer, i);
	}
	if (!set->json && !answer->kept_count)
		printf("process %d has no patch\n", set->pid);
}
