/* SPDX-License-Identifier: MIT */
/* watch_run.c - see watch_run.h: one expression, several that share the registers, or objects. */
#include "cli/watch/watch_run.h"

#include "cli/launch/start.h"
#include "cli/message.h"
#include "cli/observe/condition_option.h"
#include "cli/observe/event_stats.h"
#include "cli/observe/hit_copies.h"
#include "cli/observe/observe.h"
#include "cli/watch/watch_frames.h"
#include "cli/watch/watch_hit.h"
#include "cli/watch/watch_list.h"
#include "cli/watch/watch_multiplex.h"
#include "cli/watch/watch_objects.h"
#include "cli/watch/watch_writers.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct watch {
	struct observe run;
	struct watch_expr expr;
	struct watch_multiplex *multiplex; /* several expressions; NULL: one */
	struct watch_objects *objects;	   /* --from; NULL: EXPR is in memory now */
	struct trapline_event *event;	   /* the first */
};

static int find_several(struct watch *w, struct condition_names *names)
{
	w->multiplex = calloc(1, sizeof(*w->multiplex));
	if (!w->multiplex)
		return cli_wrong(w->run.set.name, "out of memory");
	int status = watch_multiplex_find(w->multiplex, w->run.symbols, &w->run.set);
	if (status)
		return status;
	const struct value_view *view = watch_multiplex_view(w->multiplex, &names->len);
	if (view)
		names->view = *view;
	w->expr = w->multiplex->expr[0];
	return 0;
}

/* FUNC:VARIABLE; EXPR has been parsed before. */
static bool is_in_frames(const struct watch *w)
{
	const char *function;
	const char *name;
	struct expression *e = NULL;

	if (watch_expr_parse(&w->run.set, &e))
		return false;
	bool is = watch_frames_named(w->run.symbols, e, &function, &name);
	expression_free(e);
	return is;
}

static int find_objects(struct watch *w)
{
	w->objects = calloc(1, sizeof(*w->objects));
	if (!w->objects)
		return cli_wrong(w->run.set.name, "out of memory");
	int status = w->run.set.from ? watch_objects_find(w->objects, w->run.symbols, &w->run.set) :
				       watch_frames_find(w->objects, w->run.symbols, &w->run.set);
	w->expr = w->objects->expr;
	return status;
}

/* Finds what is watched; *names gives its type to the values in a condition. */
static int find_exprs(struct watch *w, struct condition_names *names)
{
	const struct observe_settings *set = &w->run.set;

	if (!set->from && (set->operand_count > 1 || set->slice_ns))
		return find_several(w, names);
	int status = set->from || is_in_frames(w) ?
			     find_objects(w) :
			     watch_expr_resolve(w->run.symbols, set, &w->expr);
	names->view = w->expr.view;
	names->is_in_parts = w->expr.is_in_parts;
	names->is_shared = w->expr.is_shared;
	names->len = w->expr.len;
	return status;
}

/* The first option that reads registers or the stack; NULL: there is none. */
static const char *watch_needs_64bit(const struct observe_settings *set)
{
	if (set->from || !set->stack)
		return set->from ? "--from" : NULL;
	return set->record ? "call stacks (add --no-stack)" : "--stack";
}

static int watch_find(struct observe *o)
{
	struct condition_names names = { .symbols = o->symbols,
					 .thread = o->set.thread,
					 .threads = o->set.only_threads };
	struct condition_parts parts = { 0 };
	struct watch *w = (struct watch *)o;

	if (o->set.list)
		return watch_list(o->symbols, &o->set);
	int status = session_check_width(&o->session, o->symbols, watch_needs_64bit(&o->set));
	if (!status)
		status = find_exprs(w, &names);
	if (!status)
		status = cli_condition(o->set.name, o->set.condition, &names, &parts);
	o->condition = parts.entry;
	return status;
}

static int watch_describe(struct observe *o)
{
	struct watch *w = (struct watch *)o;
	struct run_info *info = &o->info;
	uint64_t unused;

	o->title = o->set.expr;
	info->what = w->expr.name;
	info->value_type = w->expr.view.type ? w->expr.view.type->name : NULL;
	info->access = (uint8_t)w->expr.access;
	info->address = w->expr.address;
	info->len = w->expr.len;
	info->is_bit_field = w->expr.view.bit_size != 0;
	info->is_several = w->objects || w->multiplex;
	if (w->multiplex) {
		o->title = info->what = w->multiplex->title;
		info->len = 0;
		if (!watch_multiplex_view(w->multiplex, &unused))
			info->value_type = NULL;
	}
	o->session.probe = w->objects ? w->objects->at.sites.site[0].address : w->expr.address;
	/* Calls come in bursts, and a lost one is an object whose end is never seen. */
	o->records_bytes = w->objects ? 32u << 20 : 0;
	return 0;
}

static int watch_tick(void *arg)
{
	struct watch *w = arg;

	return w->objects ? watch_objects_tick(w->objects) :
			    watch_multiplex_tick(w->multiplex, pace_is_off(&w->run.pace));
}

static int watch_poll(void *arg, int timeout_ms, trapline_callback fn)
{
	struct watch *w = arg;

	return watch_objects_poll(w->objects, &w->run.session, w->run.target, timeout_ms, fn);
}

/* The command is traced from its first instruction on. */
static void watch_go(void *arg)
{
	struct watch *w = arg;

	start_go_stopped(w->run.session.pid);
	watch_objects_stall_start(w->objects, &w->run.session);
	kill(w->run.session.pid, SIGCONT);
}

/* Threads are stalled where they call the function. */
static void stall_threads(struct watch *w)
{
	struct session *r = &w->run.session;

	if (!w->objects || !w->objects->stall)
		return;
	r->poll = watch_poll;
	if (r->command)
		r->go = watch_go;
	else
		watch_objects_stall_start(w->objects, r);
}

/* One expression: the kernel itself stops at the limit. */
static int arm_expr(struct watch *w, struct trapline_event_opts *opts)
{
	const struct expression_place place = { .path = { .base = w->expr.address },
						.type = w->expr.view.type,
						.size = w->expr.len };
	struct hit_copies copies = { .count = 0 };

	/* The text that its pointers lead to. */
	hit_copies_place(&copies, &place);
	opts->memory = copies.row;
	/* The first row is the value itself, which each hit has. */
	opts->memory_count = copies.count > 1 ? copies.count : 0;
	opts->limit = observe_limit(&w->run);
	int err = trapline_watch(w->run.target, w->expr.address, w->expr.len, w->expr.access, opts,
				 &w->event);
	w->run.events = &w->event;
	w->run.event_count = 1;
	return err < 0 ? session_explain(&w->run.session, "watch", w->run.set.expr, err) : 0;
}

/* Several expressions or objects. */
static int arm_free_slots(struct watch *w, const struct watch_slots *slots,
			  const struct trapline_event_opts *opts)
{
	const struct session *session = &w->run.session;
	int status = w->objects ? watch_objects_arm(w->objects, w->run.target, session, opts) :
				  watch_multiplex_arm(w->multiplex, w->run.target, session, opts);

	if (status)
		return status;
	w->event = slots->event[0];
	w->run.events = slots->event;
	w->run.event_count = slots->count;
	w->run.session.tick = watch_tick;
	w->run.session.arg = w;
	stall_threads(w);
	return 0;
}

static int watch_arm(struct observe *o, struct trapline_event_opts *opts)
{
	struct watch *w = (struct watch *)o;

	opts->flags |= o->set.kernel ? TRAPLINE_KERNEL : 0;
	int status = w->objects	  ? arm_free_slots(w, &w->objects->slots, opts) :
		     w->multiplex ? arm_free_slots(w, &w->multiplex->slots, opts) :
				    arm_expr(w, opts);
	if (!status && o->set.kernel && trapline_event_mechanism(w->event) != TRAPLINE_BY_BPF)
		return cli_wrong(
			o->set.name,
			"cannot use --kernel: it needs BPF to merge the stores of one "
			"copy, and BPF is not permitted here; run as root, or see trapline check");
	return status;
}

static void describe_exprs(const struct watch *w, char *buf, size_t n)
{
	const struct observe_settings *set = &w->run.set;
	char text[500];

	if (w->objects && w->objects->frames.are) {
		snprintf(buf, n, "%s (%zu byte%s) in each frame", w->expr.name, w->expr.len,
			 w->expr.len == 1 ? "" : "s");
	} else if (w->objects) {
		snprintf(buf, n, "%s (%zu byte%s) of objects at %s%s%s", w->expr.name, w->expr.len,
			 w->expr.len == 1 ? "" : "s", set->from, set->until ? " until " : "",
			 set->until ? set->until : "");
	} else if (w->multiplex) {
		snprintf(buf, n, "%s (%zu chunks, %zu at a time)", w->multiplex->title,
			 w->multiplex->chunk_count, w->multiplex->slots.count);
	} else {
		watch_expr_describe(&w->expr, text, sizeof(text));
		snprintf(buf, n, "%s (%s)", w->expr.name, text);
	}
}

static void watch_print_start(struct observe *o)
{
	static const char *const kinds[] = { "", "reads", "writes", "reads and writes" };
	static const char *const ways[] = { "signals", "BPF", "the kernel's ring" };
	struct trapline_stats st = { .size = sizeof(st) };
	const struct watch *w = (const struct watch *)o;
	char text[700];

	trapline_event_stats(w->event, &st);
	describe_exprs(w, text, sizeof(text));
	fprintf(stderr, "watching %s of %s in process %d, %llu thread%s, by %s\n",
		kinds[w->expr.access], text, o->session.pid, (unsigned long long)st.threads,
		st.threads == 1 ? "" : "s", ways[trapline_event_mechanism(w->event) % 3]);
	if (trapline_event_mechanism(w->event) == TRAPLINE_BY_RING && !o->set.no_bpf)
		session_note_without_bpf(&o->session);
}

static enum trapline_action watch_on_hit(const struct trapline_hit *record)
{
	struct watch *w = record->arg;
	struct trapline_hit hit = *record;
	struct watch_which which = { .expr = &w->expr };

	if ((w->objects && !watch_objects_hit(w->objects, &hit, &which)) ||
	    (w->multiplex && !watch_multiplex_hit(w->multiplex, &hit, &which)) ||
	    observe_has_enough(&w->run))
		return TRAPLINE_GO_ON;
	if (which.hits)
		(*which.hits)++;
	w->run.hits++;
	thread_names_fill(&w->run.names, &hit);
	watch_hit_print(&w->run, &hit, &which);
	pace_hit(&w->run.pace);
	return TRAPLINE_GO_ON;
}

static void watch_sum_up(struct observe *o, struct run_end *end)
{
	struct watch *w = (struct watch *)o;

	o->session.is_waited_by_poll = false;
	if (w->objects)
		watch_objects_end(w->objects, end);
	else if (w->multiplex)
		watch_multiplex_end(w->multiplex, end);
	else
		event_stats_add(w->event, end);
	/* Only where the kernel did not stop at the limit. */
	for (size_t i = 0; i < end->count_count; i++)
		if (o->beyond && !strcmp(end->counts[i].name, "limit")) {
			end->counts[i].value += o->beyond;
			end->delivered -= o->beyond;
		}
}

static void watch_release(struct observe *o)
{
	struct watch *w = (struct watch *)o;

	if (w->objects)
		watch_objects_release(w->objects);
	if (w->multiplex)
		watch_multiplex_release(w->multiplex);
	free(w->objects);
	free(w->multiplex);
}

static int watch_check(struct observe_settings *set)
{
	if (!set->from && set->until)
		return cli_wrong(set->name, "--until needs --from FUNC");
	if (set->from && set->operand_count != 1)
		return cli_wrong(set->name, "--from needs one EXPR, such as 'arg0->refcount'");
	if (set->from && set->no_bpf)
		return cli_wrong(set->name,
				 "--from cannot be combined with --no-bpf: it needs uprobes and "
				 "BPF");
	if (set->kernel && set->no_bpf)
		return cli_wrong(set->name,
				 "--kernel cannot be combined with --no-bpf: it needs BPF to "
				 "merge the stores of one copy");
	int status = cli_condition_check(set->name, set->condition);
	for (size_t i = 0; !status && !set->list && i < set->operand_count; i++) {
		set->expr = set->operands[i];
		status = watch_expr_check(set);
	}
	set->expr = set->operands[0];
	return status;
}

int watch_run(struct observe_settings *set)
{
	static const struct observe_kind kind = {
		.doing = "watch",
		.on_hit = watch_on_hit,
		.find = watch_find,
		.describe = watch_describe,
		.arm = watch_arm,
		.print_start = watch_print_start,
		.sum_up = watch_sum_up,
		.release = watch_release,
	};
	struct watch w = { .event = NULL };
	int status = watch_check(set);

	if (!status && set->at_writers)
		return watch_writers_run(set);
	return status ? status : observe_run(&w.run, &kind, set);
}
