// SPDX-License-Identifier: MIT
/* break_output.c - a call with all its names and values, for every output. */
#include "cli/break/break.h"
#include "cli/cmd.h"
#include "cli/now.h"
#include "cli/observe/hit_frames.h"
#include "report/safe/clean.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND break_command

/* All LOCATION in one line. */
static void join(const struct break_settings *set, char *buf, size_t n)
{
	size_t used = 0;

	buf[0] = 0;
	for (size_t i = 0; i < set->location_count && used < n; i++)
		used += (size_t)snprintf(buf + used, n - used, "%s%s", i ? " " : "",
					 set->locations[i]);
}

static int copy_sites(struct run_calls *calls, const struct code_sites *sites)
{
	calls->site = calloc(sites->count ? sites->count : 1, sizeof(*calls->site));
	if (!calls->site)
		return -ENOMEM;
	for (size_t i = 0; i < sites->count; i++)
		calls->site[i] = (struct run_site){
			.address = sites->site[i].address,
			.name = sites->site[i].name,
			.module = sites->site[i].module,
			.kind = (enum run_site_kind)sites->site[i].kind,
			.is_emulated = sites->site[i].is_emulated,
		};
	calls->site_count = sites->count;
	return run_calls_begin(calls);
}

int break_output_open(struct break_output *o, const struct break_settings *set)
{
	*o = (struct break_output){ 0 };
	int status = output_open(&o->to, COMMAND, set->output, set->json);
	o->to.is_quiet = set->record != NULL;
	o->to.text.is_verbose = set->verbose;
	o->to.text.frames_max = set->frames;
	return status;
}

void break_output_close(struct break_output *o)
{
	output_close(&o->to);
	run_calls_end_sums(&o->calls);
	free(o->calls.site);
}

int break_output_begin(struct break_output *o, const struct break_settings *set, pid_t pid,
		       const struct code_sites *sites)
{
	o->to.started_ns = now_ns();
	join(set, o->what, sizeof(o->what));
	break_describe(sites, o->description, sizeof(o->description));
	o->info = (struct run_info){
		.what = o->what,
		.pid = pid,
		.access = TRAPLINE_EXECUTE,
		.address = sites->site[0].address,
		.started_ns = o->to.started_ns,
		.clock_offset_ns = o->to.clock_offset_ns,
	};
	o->calls.locations = (const char *const *)set->locations;
	o->calls.location_count = set->location_count;
	o->calls.description = o->description;
	o->calls.with_results = set->ret;
	o->calls.all_sites = sites->count;
	o->calls.unresolved = sites->unresolved;
	o->calls.copies_left_out = sites->copies_left_out;
	if (copy_sites(&o->calls, sites))
		return cli_wrong(COMMAND, "out of memory");
	return set->record ? output_record(&o->to, set->record, &o->info, &o->calls) : 0;
}

static void fill_result(struct break_output *o, struct symbols *s,
			const struct trapline_hit *returned, const struct signature *signature,
			struct run_call *call, char *buf, size_t n)
{
	struct break_values v = { .s = s, .hit = returned };

	call->has_result = true;
	call->result = buf;
	if (returned->returned == TRAPLINE_LEFT) {
		snprintf(buf, n, "<left by a jump>");
		call->result_json = json_null();
		return;
	}
	break_result_text(&v, signature, buf, n);
	if (o->to.json || o->to.record)
		call->result_json = break_result_json(&v, signature);
}

void break_output_call(struct break_output *o, struct symbols *s, const struct break_call *call,
		       const struct trapline_hit *returned, const struct signature *signature)
{
	char result[200];
	char change[RUN_CALL_TEXT];
	struct run_call more = { .site = call->site,
				 .caller = call->caller,
				 .args = call->args_text,
				 .args_json = call->args_json,
				 .args_later = call->args_later };
	struct run_hit hit = { .time_ns = call->hit.time_ns,
			       .pid = call->hit.pid,
			       .tid = call->hit.tid,
			       .ip = call->hit.ip,
			       .address = call->hit.address,
			       .access = call->hit.access,
			       .change = change,
			       .frames = call->frames,
			       .frame_count = call->frame_count,
			       .call = &more };

	memcpy(hit.thread, call->hit.thread, sizeof(hit.thread));
	clean_text(hit.thread);
	hit_place(s, hit.ip, false, &hit.place);
	if (call->caller)
		hit_place(s, call->caller, true, &more.caller_place);
	if (returned) {
		fill_result(o, s, returned, signature, &more, result, sizeof(result));
		more.duration_ns = returned->time_ns - hit.time_ns;
	}
	run_call_text(&o->calls, &more, change, sizeof(change));
	run_calls_add(&o->calls, &hit);
	output_clear_status(&o->to);
	if (o->to.text.f && !o->to.is_quiet)
		run_text_call(&o->to.text, &o->info, &o->calls, &hit);
	if (o->to.json)
		run_jsonl_call(o->to.json, &o->calls, &hit);
	output_record_hit(&o->to, &hit);
	json_decref(more.result_json);
}

void break_output_end(struct break_output *o, const struct run_end *end,
		      const struct run_calls_end *more)
{
	output_clear_status(&o->to);
	if (o->to.text.f)
		run_text_calls_end(&o->to.text, &o->calls, end, more);
	if (o->to.json)
		run_jsonl_calls_end(o->to.json, &o->calls, end, more);
	output_record_end(&o->to, end, more);
}
