/* SPDX-License-Identifier: MIT */
/* break_output.c - see break_output.h. */
#include "cli/break/break_output.h"

#include "cli/break/break_redact.h"
#include "cli/break/break_result.h"

#include "cli/break/break_args.h"
#include "cli/break/break_find.h"
#include "cli/message.h"
#include "cli/observe/hit_frames.h"

#include <stdlib.h>
#include <string.h>

int break_output_begin(struct observe *o, struct break_output *out, const struct code_sites *sites)
{
	const struct observe_settings *set = &o->set;
	struct run_calls *calls = &out->calls;
	size_t used = 0;

	for (size_t i = 0; i < set->operand_count && used < sizeof(out->what); i++)
		used += (size_t)snprintf(out->what + used, sizeof(out->what) - used, "%s%s",
					 i ? " " : "", set->operands[i]);
	break_describe(sites, NULL, out->description, sizeof(out->description));
	o->info.what = out->what;
	o->info.access = TRAPLINE_EXECUTE;
	o->info.address = sites->site[0].address;
	calls->locations = (const char *const *)set->operands;
	calls->location_count = set->operand_count;
	calls->description = out->description;
	calls->with_results = set->ret;
	calls->all_sites = sites->count;
	calls->unresolved = sites->unresolved;
	calls->copies_left_out = sites->copies_left_out;
	calls->site = calloc(sites->count ? sites->count : 1, sizeof(*calls->site));
	for (size_t i = 0; calls->site && i < sites->count; i++)
		calls->site[i] = (struct run_site){
			.address = sites->site[i].address,
			.name = sites->site[i].name,
			.module = sites->site[i].module,
			.kind = (enum run_site_kind)sites->site[i].kind,
			.is_emulated = sites->site[i].is_emulated,
		};
	calls->site_count = sites->count;
	if (!calls->site || run_calls_begin(calls))
		return cli_wrong(set->name, "out of memory");
	return 0;
}

void break_output_end(struct break_output *out)
{
	run_calls_end_sums(&out->calls);
	free(out->calls.site);
}

static void fill_result(struct observe *o, struct symbols *s, const struct trapline_hit *returned,
			const struct break_call *made, const struct signature *signature,
			struct run_call *call, char *buf, size_t n)
{
	struct break_values v = { .s = s, .hit = returned, .hidden = made->hidden };

	call->has_result = true;
	call->result = buf;
	if (returned->returned == TRAPLINE_LEFT) {
		snprintf(buf, n, "<left by a jump>");
		call->result_json = json_null();
		return;
	}
	if (break_redacts_result(&o->set.redact)) {
		snprintf(buf, n, BREAK_REDACTED);
		call->result_json = json_string(BREAK_REDACTED);
		return;
	}
	if (!break_result_is_there(s, signature, made->caller)) {
		snprintf(buf, n, "<not known>");
		call->result_json = json_null();
		return;
	}
	break_result_text(&v, signature, buf, n);
	if (o->to.json || o->to.record)
		call->result_json = break_result_json(&v, signature);
	call->args_later = call->args_later || v.later;
}

struct run_call break_output_call_of(const struct break_call *call)
{
	return (struct run_call){ .site = call->site,
				  .caller = call->caller,
				  .caller_place = call->caller_place,
				  .args = call->args_text,
				  .printed = call->printed,
				  .key = call->key,
				  .args_json = call->args_json,
				  .args_later = call->args_later };
}

void break_output_print(struct observe *o, const struct break_call *call, struct run_hit *hit,
			struct run_call *more)
{
	char change[RUN_CALL_TEXT];

	run_call_text(o->calls, more, change, sizeof(change));
	hit->change = change;
	hit->frames = call->frames;
	hit->frame_count = call->frame_count;
	hit->call = more;
	observe_print(o, hit);
	json_decref(more->result_json);
}

void break_output_call(struct observe *o, struct symbols *s, const struct break_call *call,
		       const struct trapline_hit *returned, const struct signature *signature)
{
	struct run_hit hit = observe_hit_of(o, &call->hit);
	struct run_call more = break_output_call_of(call);
	char result[400];

	/* The address is that of the first process, no matter what process the hit is of. */
	hit_place(o->symbols, o->targets.set ? hit.address : hit.ip, false, &hit.place);
	hit.process = targets_name(&o->targets, hit.pid);
	if (returned) {
		fill_result(o, s, returned, call, signature, &more, result, sizeof(result));
		more.duration_ns = returned->time_ns - hit.time_ns;
	}
	break_output_print(o, call, &hit, &more);
}
