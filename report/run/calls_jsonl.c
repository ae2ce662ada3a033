/* SPDX-License-Identifier: MIT */
/* calls_jsonl.c - calls and the summary of a run of breakpoints, one JSON object a line. */
#include "report/run/run_call.h"

#include "report/code/code_folded.h"

#include <stdlib.h>
#include <string.h>

static json_t *json_origin(const struct run_calls *calls, const struct run_call *call)
{
	if (!call->caller || !run_site_is_call(calls->site[call->site].kind))
		return json_null();
	json_t *j = json_object();
	json_object_set_new(j, "ip", run_json_hex(call->caller));
	run_json_place(j, &call->caller_place);
	return j;
}

static json_t *json_or_null(json_t *j)
{
	return j ? json_incref(j) : json_null();
}

/*
 * `function` is the first of the names of functions that share their code, and same_code has the
 * others.
 */
static void set_function(json_t *j, const char *name)
{
	if (!code_folded_is(name)) {
		json_object_set_new(j, "function", run_json_text(name));
		return;
	}
	char text[CODE_FOLDED_BYTES];

	snprintf(text, sizeof(text), "%.*s", (int)(strlen(name) - strlen(CODE_FOLDED_SAME)), name);
	char *end = strstr(text, CODE_FOLDED_AND);
	*end = '\0';
	json_object_set_new(j, "function", run_json_text(text));
	json_object_set_new(j, "same_code", run_json_same_code(end + strlen(CODE_FOLDED_AND)));
}

void run_jsonl_call(FILE *f, const struct run_calls *calls, const struct run_hit *hit)
{
	const struct run_call *call = hit->call;
	const struct run_site *site = &calls->site[call->site];
	json_t *j = run_jsonl_hit_begin(hit);

	json_object_set_new(j, "site", run_json_text(site->name));
	if (site->kind == RUN_SITE_INLINED || run_site_is_call(site->kind))
		set_function(j, site->name);
	json_object_set_new(j, "inlined", json_boolean(site->kind == RUN_SITE_INLINED));
	json_object_set_new(j, "caller", json_origin(calls, call));
	json_object_set_new(j, "args", json_or_null(call->args_json));
	if (call->printed)
		json_object_set_new(j, "printed", run_json_text(call->printed));
	if (call->args_later)
		json_object_set_new(j, "args_when", json_string("later"));
	json_object_set_new(j, "ret", json_or_null(call->has_result ? call->result_json : NULL));
	json_object_set_new(j, "duration_ns",
			    call->has_result && !call->has_no_duration ?
				    json_integer((json_int_t)call->duration_ns) :
				    json_null());
	json_object_set_new(j, "stack", run_jsonl_frames(hit->frames, hit->frame_count));
	run_jsonl_line(f, j);
}

static json_t *json_durations(const struct run_site_sums *b)
{
	json_t *list = json_array();

	for (int i = 0; b->buckets && i < RUN_BUCKETS; i++) {
		if (!b->buckets[i])
			continue;
		json_t *j = json_object();
		json_object_set_new(j, "from_ns",
				    json_integer(i ? (json_int_t)(UINT64_C(1) << i) : 0));
		json_object_set_new(j, "calls", json_integer((json_int_t)b->buckets[i]));
		json_array_append_new(list, j);
	}
	return list;
}

static json_t *json_functions(const struct run_calls *calls)
{
	json_t *list = json_array();
	size_t n;
	struct tally_sum *sums = tally_sums(&calls->functions, false, &n);

	for (size_t i = 0; i < n; i++) {
		const struct run_site *site = &calls->site[sums[i].ip];
		const struct run_site_sums *b = &calls->sums[sums[i].ip];
		json_t *j = json_object();
		json_object_set_new(j, "ip", run_json_hex(site->address));
		set_function(j, site->name);
		json_object_set_new(j, "module", run_json_text(site->module));
		json_object_set_new(j, "inlined", json_boolean(site->kind == RUN_SITE_INLINED));
		json_object_set_new(j, "emulated", json_boolean(site->is_emulated));
		json_object_set_new(j, "hits", json_integer((json_int_t)sums[i].hits));
		json_object_set_new(j, "threads", json_integer((json_int_t)sums[i].others));
		json_object_set_new(j, "returns", json_integer((json_int_t)b->returns));
		json_object_set_new(j, "total_ns", json_integer((json_int_t)b->total_ns));
		json_object_set_new(j, "max_ns", json_integer((json_int_t)b->max_ns));
		json_object_set_new(j, "durations", json_durations(b));
		json_array_append_new(list, j);
	}
	free(sums);
	return list;
}

static json_t *json_cost(double ns)
{
	return ns >= 0 ? json_integer((json_int_t)ns) : json_null();
}

static void json_mechanism(json_t *j, const struct run_calls_end *a)
{
	json_object_set_new(j, "sites_emulated", json_integer((json_int_t)a->emulated));
	json_object_set_new(j, "sites_stepped", json_integer((json_int_t)a->stepped));
	json_object_set_new(j, "sites_hardware", json_integer((json_int_t)a->hardware));
	json_object_set_new(j, "sites_probe", json_integer((json_int_t)a->probes));
	json_object_set_new(j, "sites_trap", json_integer((json_int_t)a->traps));
	json_object_set_new(j, "no_probe", a->no_probe ? run_json_text(a->no_probe) : json_null());
	json_object_set_new(j, "sites_refused", json_integer((json_int_t)a->refused));
	json_object_set_new(j, "cost_emulated_ns", json_cost(a->emulated_ns));
	json_object_set_new(j, "cost_stepped_ns", json_cost(a->stepped_ns));
	json_object_set_new(j, "cost_hardware_ns", json_cost(a->hardware_ns));
	json_object_set_new(j, "cost_probe_ns", json_cost(a->probe_ns));
}

void run_jsonl_calls_end(FILE *f, const struct run_calls *calls, const struct run_end *end,
			 const struct run_calls_end *more)
{
	json_t *j = json_object();
	json_t *what = json_array();

	for (size_t i = 0; i < calls->location_count; i++)
		json_array_append_new(what, run_json_text(calls->locations[i]));
	json_object_set_new(j, "type", json_string("summary"));
	json_object_set_new(j, "what", what);
	json_object_set_new(j, "sites", json_integer((json_int_t)calls->all_sites));
	json_object_set_new(j, "sites_unresolved", json_integer((json_int_t)calls->unresolved));
	json_object_set_new(j, "inlined_left_out",
			    json_integer((json_int_t)calls->copies_left_out));
	json_object_set_new(j, "hits", json_integer((json_int_t)calls->hits));
	json_object_set_new(j, "ended", run_json_text(end->reason));
	json_object_set_new(j, "command", run_json_text(end->command));
	run_jsonl_totals(j, end);
	json_object_set_new(j, "beyond_limit", json_integer((json_int_t)more->beyond));
	json_object_set_new(j, "other_results", json_integer((json_int_t)more->other_results));
	json_mechanism(j, more);
	json_object_set_new(j, "not_returned", json_integer((json_int_t)more->not_returned));
	json_object_set_new(j, "unpaired_returns", json_integer((json_int_t)more->unpaired));
	json_object_set_new(j, "functions", json_functions(calls));
	json_object_set_new(j, "callers", run_jsonl_sites(&calls->callers));
	json_object_set_new(j, "threads", run_jsonl_threads(&calls->functions));
	json_object_set_new(j, "processes", run_jsonl_processes(&calls->processes));
	run_jsonl_line(f, j);
}
