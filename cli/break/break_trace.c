/* SPDX-License-Identifier: MIT */
/*
 * break_trace.c - see break_trace.h.
 *
 * The tree is in memory that the process can write: numbers are copied once and inspected. An
 * address is only looked up as a name.
 */
#include "cli/break/break_trace.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "cli/message.h"
#include "report/code/syscall_names.h"
#include "report/run/run.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>
#include <time.h>
#include <trapline/window.h>

#define WINDOW_NS 10000000000u
#define WAIT_NS 500000000u
#define STEP_NS 1000000
#define INDENT_MAX 60u

static const char *trace_option_against(const struct observe_settings *set)
{
	return set->ret		   ? "--ret" :
	       set->follow	   ? "--follow" :
	       set->process_name   ? "--name" :
	       set->pids.count > 1 ? "-p with several processes" :
	       set->limit > 1	   ? "--limit" :
	       set->then	   ? "--then" :
	       set->last	   ? "--last" :
	       set->by		   ? "--by" :
	       set->summary	   ? "--summary" :
	       set->until_hit	   ? "--until-hit" :
	       set->record	   ? "a recording" :
	       set->no_bpf	   ? "--no-bpf" :
	       set->mechanism && strcmp(set->mechanism, "probe") != 0 ? "--mechanism" :
									NULL;
}

int break_trace_check(struct observe_settings *set)
{
	const char *other = trace_option_against(set);

	if (set->depth && !set->trace)
		return cli_wrong(set->name, "--depth needs --trace");
	if (!set->trace)
		return 0;
	if (other)
		return cli_wrong(set->name,
				 "%s cannot be combined with --trace: one call is traced, "
				 "in a process that has the agent",
				 other);
	set->mechanism = "probe";
	set->limit = 0;
	return 0;
}

int break_trace_fill(struct probe_region *region, const struct observe *o,
		     const struct code_sites *sites)
{
	if (!o->set.trace)
		return 0;
	if (sites->count != 1 || sites->site[0].kind != CODE_SITE_FUNCTION)
		return cli_wrong(
			o->set.name,
			"--trace needs one function, and %s is not one (trapline break -l '%s' "
			"lists what it is)",
			o->set.operands[0], o->set.operands[0]);
	if (symbols_is_go(o->symbols, sites->site[0].address))
		return cli_wrong(o->set.name,
				 "cannot trace %s: it is Go, whose runtime moves stacks",
				 sites->site[0].name);
	region->is_trace = 1;
	region->is_whole = 1;
	region->limit = 1;
	region->trace_depth = (uint32_t)(o->set.depth < UINT32_MAX ? o->set.depth : UINT32_MAX);
	region->trace_ns = o->set.for_ns ? o->set.for_ns : WINDOW_NS;
	return 0;
}

bool break_trace_is_done(const struct probe_region *region)
{
	return region->is_trace && atomic_get(&region->trace.state) == TRACE_DONE;
}

/* ---- what is printed ---- */

struct trace_report {
	struct observe *o;
	const struct probe_region *region;
	struct trace_head head; /* a copy */
	double ns_per_tick;	/* 0: not known */
	uint64_t last_ticks;
	uint64_t left; /* nodes that a jump has left */
	bool is_merged[INDENT_MAX];
};

static const char *reason_text(const struct trace_report *r, char *buf, size_t n)
{
	static const char *const texts[] = {
		[TRAPLINE_WINDOW_RUNS] = "the call has not returned",
		[TRAPLINE_WINDOW_TIME] = "the time for it was over (--for)",
		[TRAPLINE_WINDOW_FAULT] = "an instruction faulted",
		[TRAPLINE_WINDOW_SIGNAL] = "a signal came for the program",
		[TRAPLINE_WINDOW_BLOCKING] = "a system call may block",
		[TRAPLINE_WINDOW_RESTARTABLE] = "a restartable sequence came",
		[TRAPLINE_WINDOW_INSTRUCTION] = "an instruction came that cannot be traced",
		[TRAPLINE_WINDOW_UNREADABLE] = "the code could not be read",
		[TRAPLINE_WINDOW_TRAP] = "a watch was hit, or a system call was filtered",
	};
	const uint32_t reason = r->head.reason;

	if (r->head.limit == TRACE_LIMIT_NODES)
		snprintf(buf, n, "the limit of %u calls was reached (--depth lowers their number)",
			 TRACE_NODES_MAX);
	else if (r->head.limit == TRACE_LIMIT_FRAMES)
		snprintf(buf, n, "the calls were nested too deeply");
	else if (reason == TRAPLINE_WINDOW_SYSTEM_CALL)
		snprintf(buf, n, "the system call %s came",
			 syscall_name((int64_t)r->head.syscall) ?
				 syscall_name((int64_t)r->head.syscall) :
				 "rt_sigreturn");
	else if (reason < sizeof(texts) / sizeof(texts[0]) && texts[reason])
		snprintf(buf, n, "%s", texts[reason]);
	else
		return NULL;
	return buf;
}

static void name_of(const struct trace_report *r, uint64_t address, struct place *p, char *buf,
		    size_t n)
{
	symbols_place(r->o->symbols, address, p);
	if (!p->function && p->module)
		snprintf(buf, n, "%s+0x%" PRIx64, p->module, p->module_offset);
	else if (!p->function)
		snprintf(buf, n, "0x%" PRIx64, address);
	else if (p->offset)
		snprintf(buf, n, "%s+0x%" PRIx64, p->function, p->offset);
	else
		snprintf(buf, n, "%s", p->function);
}

/* The compiler's part of a function that is seldom executed is not a function of its own. */
static bool is_cold_part(const struct place *p, const struct trace_node *node)
{
	const char *name = p->symbol ? p->symbol : p->function;
	const size_t n = name ? strlen(name) : 0;

	return node->by_jump && n > 5 && !strcmp(name + n - 5, ".cold");
}

static uint32_t shown_depth(struct trace_report *r, uint32_t depth, bool is_merged)
{
	const uint32_t at = depth < INDENT_MAX ? depth : INDENT_MAX - 1;
	uint32_t shown = depth;

	for (uint32_t i = 0; i < at; i++)
		shown -= r->is_merged[i];
	r->is_merged[at] = is_merged;
	memset(r->is_merged + at + 1, 0, INDENT_MAX - at - 1);
	return shown;
}

static uint64_t duration_of(const struct trace_report *r, const struct trace_node *node)
{
	const uint64_t end = node->end ? node->ticks_end : r->last_ticks;

	return end > node->ticks_begin ?
		       (uint64_t)((double)(end - node->ticks_begin) * r->ns_per_tick) :
		       0;
}

static uint64_t insns_of(const struct trace_report *r, const struct trace_node *node)
{
	const uint64_t end = node->end ? node->insns_end : r->head.insns;

	return end > node->insns_begin ? end - node->insns_begin : 0;
}

static const char *ending_of(const struct trace_node *node)
{
	return node->end == TRACE_RETURNED ? "return" : node->end == TRACE_LEFT ? "left" : "open";
}

static void text_node(struct trace_report *r, const struct trace_node *node, const char *name,
		      uint32_t depth)
{
	static const char spaces[2 * INDENT_MAX + 1] =
		"                                                            "
		"                                                            ";
	const uint64_t ns = duration_of(r, node);
	const uint32_t indent = depth < INDENT_MAX ? depth : INDENT_MAX;
	FILE *f = r->o->to.text.f;

	fprintf(f, "%14" PRIu64, insns_of(r, node));
	if (ns < 10000000)
		fprintf(f, "  %8.1f us", (double)ns / 1e3);
	else
		fprintf(f, "  %8.1f ms", (double)ns / 1e6);
	fprintf(f, "  %.*s%s%s%s\n", (int)(2 * indent), spaces, name,
		node->by_jump ? " (by a jump)" : "",
		node->end == TRACE_RETURNED ? "" :
		node->end == TRACE_LEFT	    ? " (left by a jump or an exception)" :
					      " (has not returned)");
}

static void json_node(struct trace_report *r, const struct trace_node *node, const struct place *p,
		      uint32_t depth)
{
	json_t *j = json_object();

	json_object_set_new(j, "type", json_string("trace_call"));
	json_object_set_new(j, "depth", json_integer((json_int_t)depth));
	json_object_set_new(j, "function", p->function ? json_string(p->function) : json_null());
	json_object_set_new(j, "module", p->module ? json_string(p->module) : json_null());
	json_object_set_new(j, "address", json_sprintf("0x%" PRIx64, node->function));
	json_object_set_new(j, "instructions", json_integer((json_int_t)insns_of(r, node)));
	json_object_set_new(j, "ns", json_integer((json_int_t)duration_of(r, node)));
	json_object_set_new(j, "tail", json_boolean(node->by_jump));
	json_object_set_new(j, "end", json_string(ending_of(node)));
	run_jsonl_line(r->o->to.json, j);
}

static void print_node(struct trace_report *r, uint32_t number)
{
	const struct trace_node node = r->region->nodes[number];
	struct place p;
	char name[300];

	name_of(r, node.function, &p, name, sizeof(name));
	const bool is_cold = is_cold_part(&p, &node);
	const uint32_t depth = shown_depth(r, node.depth, is_cold);
	if (is_cold)
		return;
	r->left += node.end == TRACE_LEFT;
	if (r->o->to.text.f && !r->o->to.is_quiet)
		text_node(r, &node, name, depth);
	if (r->o->to.json)
		json_node(r, &node, &p, depth);
}

static void print_whole(struct trace_report *r)
{
	const char *why = NULL;
	char text[160];
	FILE *f = r->o->to.text.f;

	if (r->head.nodes && r->region->nodes[0].end == TRACE_OPEN)
		why = reason_text(r, text, sizeof(text));
	if (f && r->head.deeper)
		fprintf(f, "%" PRIu64 " deeper call%s not listed (--depth)\n", r->head.deeper,
			r->head.deeper == 1 ? " is" : "s are");
	if (f && why)
		fprintf(f, "the trace ends here, and the thread continues natively: %s\n", why);
	if (!r->o->to.json)
		return;
	json_t *j = json_object();
	json_object_set_new(j, "type", json_string("trace"));
	json_object_set_new(j, "calls", json_integer(r->head.nodes));
	json_object_set_new(j, "deeper", json_integer((json_int_t)r->head.deeper));
	json_object_set_new(j, "instructions", json_integer((json_int_t)r->head.insns));
	json_object_set_new(j, "is_whole", json_boolean(!why));
	json_object_set_new(j, "ended_by", why ? json_string(why) : json_null());
	run_jsonl_line(r->o->to.json, j);
}

static void wait_for_end(const struct probe_region *region)
{
	const struct timespec step = { 0, STEP_NS };
	const uint64_t start = clock_now_ns();

	while (atomic_get(&region->trace.state) == TRACE_RUNS && clock_now_ns() - start < WAIT_NS)
		nanosleep(&step, NULL);
}

void break_trace_print(const struct probe_region *region, struct observe *o)
{
	struct trace_report r = { .o = o, .region = region };

	if (!region->is_trace || atomic_get(&region->trace.state) == TRACE_WAITS)
		return;
	wait_for_end(region);
	memcpy(&r.head, (const void *)&region->trace, sizeof(r.head));
	if (r.head.error) {
		cli_note(o->set.name, "cannot trace the call: %s", strerror(-r.head.error));
		return;
	}
	if (r.head.nodes > TRACE_NODES_MAX)
		r.head.nodes = TRACE_NODES_MAX;
	if (r.head.end_ticks > r.head.begin_ticks && r.head.end_ns > r.head.begin_ns)
		r.ns_per_tick = (double)(r.head.end_ns - r.head.begin_ns) /
				(double)(r.head.end_ticks - r.head.begin_ticks);
	r.last_ticks = r.head.end_ticks;
	output_clear_status(&o->to);
	if (o->to.text.f && !o->to.is_quiet)
		fputs("\n  instructions     duration  function\n", o->to.text.f);
	for (uint32_t i = 0; i < r.head.nodes; i++)
		print_node(&r, i);
	print_whole(&r);
}
