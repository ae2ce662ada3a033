// SPDX-License-Identifier: MIT
/* break_output.c - calls as lines for people and as JSON objects. */
#include "cli/break.h"
#include "cli/hit_frames.h"

#include <inttypes.h>
#include <string.h>

void break_duration(uint64_t ns, char *buf, size_t n)
{
	if (ns < 1000)
		snprintf(buf, n, "%" PRIu64 " ns", ns);
	else if (ns < 1000000)
		snprintf(buf, n, "%.1f us", (double)ns / 1e3);
	else if (ns < 1000000000)
		snprintf(buf, n, "%.1f ms", (double)ns / 1e6);
	else
		snprintf(buf, n, "%.1f s", (double)ns / 1e9);
}

/* Where from: the caller of a function, the function around a copy or an instruction. */
static void origin_text(struct symbols *s, const struct break_call *call, char *buf,
			size_t n)
{
	bool is_call = call->site->kind == CODE_SITE_FUNCTION;
	uint64_t ip = is_call ? call->caller : call->hit.ip;
	char text[400];
	struct place p;

	if (!ip) {
		snprintf(buf, n, "from ?");
		return;
	}
	hit_place(s, ip, is_call, &p);
	run_place_text_with_line(&p, ip, text, sizeof(text));
	snprintf(buf, n, "%s %s%s%s", is_call ? "from" : "in", text,
		 !p.file && p.function && p.module ? " in " : "",
		 !p.file && p.function && p.module ? p.module : "");
}

static void call_text(struct break_output *o, struct symbols *s,
		      const struct break_call *call, const struct trapline_hit *returned,
		      const struct signature *signature, char *buf, size_t n)
{
	struct break_values v = { .s = s, .hit = returned };
	size_t used = (size_t)snprintf(buf, n, "%.200s", call->site->name);

	if (call->site->kind == CODE_SITE_INLINED)
		used += (size_t)snprintf(buf + used, n - used, " [inlined]");
	if (call->args_text)
		used += (size_t)snprintf(buf + used, n - used, "(%s)", call->args_text);
	if (!returned && o->with_ret && call->site->kind == CODE_SITE_FUNCTION)
		snprintf(buf + used, n - used, "  has not returned");
	if (!returned || used + 64 >= n)
		return;
	char result[200];
	char took[32];
	break_result_text(&v, signature, result, sizeof(result));
	break_duration(returned->time_ns - call->hit.time_ns, took, sizeof(took));
	snprintf(buf + used, n - used, "%s%s  %s", result[0] ? " = " : "", result, took);
}

static void text_call(struct break_output *o, struct symbols *s,
		      const struct break_call *call, const struct trapline_hit *returned,
		      const struct signature *signature)
{
	struct run_text *to = &o->to.text;
	const struct trapline_hit *hit = &call->hit;
	char thread[48];
	char text[2500];
	char origin[450];

	snprintf(thread, sizeof(thread), "%s/%d", hit->thread[0] ? hit->thread : "?",
		 hit->tid);
	call_text(o, s, call, returned, signature, text, sizeof(text));
	origin_text(s, call, origin, sizeof(origin));
	run_clean_text(thread);
	run_clean_text(text);
	run_text_time(to, hit->time_ns + o->to.clock_offset_ns);
	fprintf(to->f, "  %-*s  %s%-*s%s  %s%s\n",
		run_text_widen(&to->thread_width, thread, 24), thread,
		to->has_color ? "\033[1m" : "",
		run_text_widen(&to->value_width, text, 60), text,
		to->has_color ? "\033[0m" : "", origin,
		call->args_later ? "  (memory read later)" : "");
}

static json_t *json_origin(struct symbols *s, const struct break_call *call)
{
	struct place p;

	if (!call->caller || call->site->kind != CODE_SITE_FUNCTION)
		return json_null();
	json_t *j = json_object();
	hit_place(s, call->caller, true, &p);
	json_object_set_new(j, "ip", run_json_hex(call->caller));
	run_json_place(j, &p);
	return j;
}

static void json_call(struct break_output *o, struct symbols *s,
		      const struct break_call *call, const struct trapline_hit *returned,
		      const struct signature *signature, const struct place *p)
{
	struct break_values v = { .s = s, .hit = returned };
	struct run_hit hit = { .time_ns = call->hit.time_ns,
			       .pid = call->hit.pid,
			       .tid = call->hit.tid,
			       .ip = call->hit.ip,
			       .place = *p,
			       .address = call->hit.address,
			       .access = call->hit.access };

	memcpy(hit.thread, call->hit.thread, sizeof(hit.thread));
	json_t *j = run_jsonl_hit_begin(&hit);
	json_object_set_new(j, "site", run_json_text(call->site->name));
	if (call->site->kind == CODE_SITE_INLINED ||
	    call->site->kind == CODE_SITE_FUNCTION)
		json_object_set_new(j, "function", run_json_text(call->site->name));
	json_object_set_new(j, "inlined",
			    json_boolean(call->site->kind == CODE_SITE_INLINED));
	json_object_set_new(j, "caller", json_origin(s, call));
	json_object_set_new(j, "args",
			    call->args_json ? json_incref(call->args_json) : json_null());
	if (call->args_later)
		json_object_set_new(j, "args_when", json_string("later"));
	json_object_set_new(j, "ret",
			    returned ? break_result_json(&v, signature) : json_null());
	json_object_set_new(j, "duration_ns",
			    returned ? json_integer((json_int_t)(returned->time_ns -
								 call->hit.time_ns)) :
				       json_null());
	json_object_set_new(j, "stack",
			    run_jsonl_frames(call->frames, call->frame_count));
	run_jsonl_line(o->to.json, j);
}

void break_output_call(struct break_output *o, struct symbols *s,
		       const struct break_call *call, const struct trapline_hit *returned,
		       const struct signature *signature)
{
	struct place p;

	hit_place(s, call->hit.ip, false, &p);
	output_clear_status(&o->to);
	if (o->to.text.f) {
		text_call(o, s, call, returned, signature);
		run_text_frames(o->to.text.f, call->frames, call->frame_count);
	}
	if (o->to.json)
		json_call(o, s, call, returned, signature, &p);
}
