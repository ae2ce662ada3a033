// SPDX-License-Identifier: MIT
/*
 * cmd_watch.c - `trapline watch`: reports each access to memory.
 *
 * It looks up, arms, and prints until the first of these: Ctrl-C or SIGTERM, the limit, the time, the
 * end of the target, or its exec. See session.h.
 */
#include "cli/cmd.h"
#include "cli/launch/thread_names.h"
#include "cli/now.h"
#include "cli/observe/condition_option.h"
#include "cli/observe/event_stats.h"
#include "cli/observe/session.h"
#include "cli/watch/watch.h"
#include "cli/watch/watch_multiplex.h"
#include "cli/watch/watch_objects.h"

#include <stdlib.h>
#include <string.h>

#define COMMAND watch_command

const char *watch_command;

struct watch {
	struct watch_settings set;
	struct watch_expr expr;
	struct watch_multiplex *multiplex; /* several expressions; NULL: one */
	struct watch_objects *objects;	   /* --from; NULL: EXPR is in memory now */
	struct symbols *symbols;
	struct trapline_condition *condition;
	struct trapline *target;
	struct trapline_event *event;
	struct watch_output output;
	struct session session;
	struct pace pace;
	struct thread_names names;
	uint64_t hits;
	uint64_t beyond; /* records that came after the limit was reached */
	bool has_run;
};

static const char *title_of(const struct watch *w)
{
	return w->multiplex ? w->multiplex->title : w->set.expr;
}

/* One expression: the kernel itself stops at the limit. */
static int arm_place(struct watch *w, struct trapline_event_opts *opts)
{
	opts->limit = w->set.limit;
	int err = trapline_watch(w->target, w->expr.address, w->expr.len, w->expr.access, opts,
				 &w->event);
	return err < 0 ? session_explain(&w->session, "watch", w->set.expr, err) : 0;
}

static int watch_arm(struct watch *w)
{
	TRAPLINE_OPTS(open, open_opts);
	TRAPLINE_OPTS(event, opts);

	open_opts.flags = w->set.no_bpf ? TRAPLINE_NO_BPF : 0;
	/* Calls come in bursts, and a lost one is an object whose end is never seen. */
	open_opts.records_bytes = w->objects ? 32u << 20 : 0;
	int err = trapline_open(w->set.pid, &open_opts, &w->target);
	if (err < 0)
		return session_explain(&w->session, "watch", title_of(w), err);
	opts.arg = w;
	opts.condition = w->condition;
	opts.flags = (w->set.stack ? TRAPLINE_STACK_BYTES : 0) |
		     (w->set.kernel ? TRAPLINE_KERNEL : 0);
	int status = w->objects ? watch_objects_arm(w->objects, w->target, &w->session, &opts) :
		     w->multiplex ?
				  watch_multiplex_arm(w->multiplex, w->target, &w->session, &opts) :
				  arm_place(w, &opts);
	if (status)
		return status;
	if (!w->event)
		w->event = w->objects ? w->objects->slots.event[0] : w->multiplex->slots.event[0];
	if (w->set.kernel && trapline_event_mechanism(w->event) != TRAPLINE_BY_BPF)
		return cli_wrong(
			COMMAND,
			"cannot use --kernel: it needs BPF to merge the stores of one "
			"copy, and BPF is not permitted here; run as root, or see trapline check");
	return 0;
}

static int find_several(struct watch *w, struct condition_names *names)
{
	w->multiplex = calloc(1, sizeof(*w->multiplex));
	if (!w->multiplex)
		return cli_wrong(COMMAND, "out of memory");
	int status = watch_multiplex_find(w->multiplex, w->symbols, &w->set);
	if (status)
		return status;
	const struct value_view *view = watch_multiplex_view(w->multiplex, &names->len);
	if (view)
		names->view = *view;
	w->expr = w->multiplex->expr[0];
	return 0;
}

static int find_objects(struct watch *w)
{
	w->objects = calloc(1, sizeof(*w->objects));
	if (!w->objects)
		return cli_wrong(COMMAND, "out of memory");
	int status = watch_objects_find(w->objects, w->symbols, &w->set);
	w->expr = w->objects->expr;
	return status;
}

/* Finds what is watched; *names gives its type to the values in a condition. */
static int watch_find(struct watch *w, struct condition_names *names)
{
	int status = 0;

	*names = (struct condition_names){ .symbols = w->symbols, .thread = w->set.thread };
	if (!w->set.from && (w->set.expr_count > 1 || w->set.slice_ns))
		return find_several(w, names);
	if (w->set.from)
		status = find_objects(w);
	else
		status = watch_expr_resolve(w->symbols, &w->set, &w->expr);
	names->view = w->expr.view;
	names->len = w->expr.len;
	return status;
}

/* The first option that reads registers or the stack; NULL: there is none. */
static const char *watch_needs_64bit(const struct watch_settings *set)
{
	if (set->from || !set->stack)
		return set->from ? "--from" : NULL;
	return set->record ? "call stacks (add --no-stack)" : "--stack";
}

static int watch_find_and_arm(struct watch *w)
{
	struct condition_names names;
	struct condition_parts parts = { 0 };
	int status = session_open_symbols(&w->session, &w->symbols);

	if (!status)
		status = session_check_width(&w->session, w->symbols, watch_needs_64bit(&w->set));
	if (!status)
		status = watch_find(w, &names);
	if (!status)
		status = cli_condition(COMMAND, w->set.condition, &names, &parts);
	w->condition = parts.entry;
	if (status || w->set.explain)
		return status;
	watch_output_begin(&w->output, &w->expr, &w->set);
	w->output.info.is_several = w->objects || w->multiplex;
	if (w->multiplex) {
		w->output.info.what = w->multiplex->title;
		w->output.info.len = 0;
		if (!watch_multiplex_view(w->multiplex, &names.len))
			w->output.info.value_type = NULL;
	}
	if (w->set.record)
		status = output_record(&w->output.to, w->set.record, &w->output.info, NULL);
	if (status)
		return status;
	w->session.probe = w->objects ? w->objects->at.sites.site[0].address : w->expr.address;
	session_open_memory(&w->session);
	return watch_arm(w);
}

/* --list. A command is started for it and runs none of its own code. */
static int list(struct watch *w)
{
	int status = session_hold(&w->session);

	if (status)
		return status;
	status = session_open_symbols(&w->session, &w->symbols);
	if (!status)
		status = watch_list(w->symbols, &w->set);
	session_release(&w->session, false);
	symbols_close(w->symbols);
	return status;
}

static int watch_start(struct watch *w)
{
	int status = session_hold(&w->session);

	if (status)
		return status;
	w->set.pid = w->session.pid;
	status = watch_find_and_arm(w);
	session_release(&w->session, !status && !w->set.explain);
	return status;
}

static void watch_describe(const struct watch *w, char *buf, size_t n)
{
	char text[500];

	if (w->objects) {
		snprintf(buf, n, "%s (%zu byte%s) of objects at %s%s%s", w->expr.name, w->expr.len,
			 w->expr.len == 1 ? "" : "s", w->set.from, w->set.until ? " until " : "",
			 w->set.until ? w->set.until : "");
	} else if (w->multiplex) {
		snprintf(buf, n, "%s (%zu chunks, %zu at a time)", w->multiplex->title,
			 w->multiplex->chunk_count, w->multiplex->slots.count);
	} else {
		watch_expr_describe(&w->expr, text, sizeof(text));
		snprintf(buf, n, "%s (%s)", w->expr.name, text);
	}
}

static void watch_print_start(const struct watch *w)
{
	static const char *const kinds[] = { "", "reads", "writes", "reads and writes" };
	static const char *const ways[] = { "signals", "BPF", "the kernel's ring" };
	struct trapline_stats st = { .size = sizeof(st) };
	char text[700];

	trapline_event_stats(w->event, &st);
	watch_describe(w, text, sizeof(text));
	fprintf(stderr, "watching %s of %s in process %d, %llu thread%s, by %s\n",
		kinds[w->expr.access], text, w->set.pid, (unsigned long long)st.threads,
		st.threads == 1 ? "" : "s", ways[trapline_event_mechanism(w->event) % 3]);
	if (trapline_event_mechanism(w->event) == TRAPLINE_BY_RING && !w->set.no_bpf)
		session_note_without_bpf(&w->session);
}

/* False: the record is not a hit, or came after the limit. */
static bool watch_is_wanted(struct watch *w, const struct trapline_hit *hit,
			    struct watch_which *which)
{
	*which = (struct watch_which){ .expr = &w->expr };
	if (w->objects && !watch_objects_hit(w->objects, hit, which))
		return false;
	if (w->multiplex && !watch_multiplex_hit(w->multiplex, hit, which))
		return false;
	if (w->set.limit && w->hits >= w->set.limit) {
		w->beyond++;
		return false;
	}
	if (which->hits)
		(*which->hits)++;
	w->hits++;
	return true;
}

static enum trapline_action watch_on_hit(const struct trapline_hit *record)
{
	struct watch *w = record->arg;
	struct trapline_hit hit = *record;
	struct watch_which which;

	if (!watch_is_wanted(w, &hit, &which))
		return TRAPLINE_GO_ON;
	thread_names_fill(&w->names, &hit);
	watch_output_hit(&w->output, w->symbols, &hit, &which);
	pace_hit(&w->pace);
	return TRAPLINE_GO_ON;
}

static int tick(void *arg)
{
	struct watch *w = arg;

	return w->objects ? watch_objects_tick(w->objects) :
			    watch_multiplex_tick(w->multiplex, w->pace.paused_since_ns != 0);
}

/* Sets the events that a pause disables. */
static void begin_pace(struct watch *w)
{
	const struct watch_slots *slots = w->objects   ? &w->objects->slots :
					  w->multiplex ? &w->multiplex->slots :
							 NULL;

	pace_start(&w->pace, slots ? slots->event : &w->event, slots ? slots->count : 1,
		   w->set.max_rate);
	if (!slots)
		return;
	w->session.tick = tick;
	w->session.arg = w;
}

static void watch_sum_up(struct watch *w, struct run_end *end)
{
	if (w->objects)
		watch_objects_end(w->objects, end);
	else if (w->multiplex)
		watch_multiplex_end(w->multiplex, end);
	else
		event_stats_add(w->event, end);
	/* Only where the kernel did not stop at the limit. */
	for (size_t i = 0; i < end->count_count; i++)
		if (w->beyond && !strcmp(end->counts[i].name, "limit")) {
			end->counts[i].value += w->beyond;
			end->delivered -= w->beyond;
		}
}

/* The summary. An exit status: what could not be written is an error. */
static int watch_finish(struct watch *w, const char *reason)
{
	struct run_end end = { .reason = reason, .max_rate = w->set.max_rate };
	char command[64] = "";

	end.duration_ns = now_ns() - w->session.started_ns;
	end.sees_kernel = w->set.kernel;
	watch_sum_up(w, &end);
	trapline_close(w->target);
	w->target = NULL;
	end.cost_ns = watch_cost_ns(&w->set);
	end.pauses = w->pace.pauses;
	end.paused_ns = w->pace.paused_ns;
	session_describe_command(&w->session, command, sizeof(command));
	end.command = command[0] ? command : NULL;
	end.is_stopped = w->session.is_stopped;
	watch_output_end(&w->output, &end);
	if (w->set.record && !w->output.to.failed_path)
		printf("recorded in %s: trapline report %s\n", w->set.record, w->set.record);
	return output_finish(&w->output.to, w->hits);
}

static void watch_release(struct watch *w)
{
	trapline_close(w->target);
	if (w->objects)
		watch_objects_release(w->objects);
	if (w->multiplex)
		watch_multiplex_release(w->multiplex);
	free(w->objects);
	free(w->multiplex);
	watch_output_close(&w->output);
	symbols_close(w->symbols);
	trapline_condition_free(w->condition);
	session_close(&w->session);
}

/* From the look-up to the last line. An exit status. */
static int watch(struct watch *w)
{
	int status = watch_output_open(&w->output, &w->set);

	if (!status)
		status = watch_start(w);
	if (status || w->set.explain)
		return status ? status : cli_condition_explain(COMMAND, w->condition);
	watch_print_start(w);
	begin_pace(w);
	w->has_run = true;
	return watch_finish(w, session_loop(&w->session, w->target, &w->pace, &w->output.to,
					    watch_on_hit, &w->hits));
}

int watch_run(const struct watch_settings *set)
{
	struct watch w = { .set = *set };

	w.session = (struct session){ .name = COMMAND,
				      .pid = w.set.pid,
				      .command = w.set.command,
				      .limit = w.set.limit,
				      .for_ns = w.set.for_ns,
				      .memory_fd = -1 };
	if (w.set.list)
		return list(&w);
	int status = watch(&w);
	watch_release(&w);
	if (w.has_run)
		session_wait_for_command(&w.session);
	return status;
}

int cmd_watch(int argc, char **argv)
{
	struct watch_settings set;
	int status = watch_settings_read(&set, argc, argv);

	if (status)
		return status < 0 ? CLI_OK : status;
	return watch_run(&set);
}
