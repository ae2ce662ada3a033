// SPDX-License-Identifier: MIT
/*
 * cmd_watch.c - `trapline watch`: who touches this memory?
 *
 * Look up, arm, print until one of these: Ctrl-C or SIGTERM, the limit, the time, the end of the
 * target, or its exec. See session.h.
 */
#include "cli/clock.h"
#include "cli/cmd.h"
#include "cli/condition.h"
#include "cli/event_stats.h"
#include "cli/session.h"
#include "cli/thread_names.h"
#include "cli/watch.h"
#include "cli/watch_objects.h"
#include "cli/watch_turns.h"

#include <stdlib.h>
#include <string.h>

#define COMMAND watch_command

const char *watch_command;

struct watch {
	struct watch_settings set;
	struct watch_what what;
	struct watch_turns *turns;     /* several places; NULL: one */
	struct watch_objects *objects; /* --at; NULL: places that are there */
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
};

static const char *title_of(const struct watch *w)
{
	return w->turns ? w->turns->title : w->set.what;
}

/* One place: the kernel itself sees to the limit. */
static int arm_place(struct watch *w, struct trapline_event_opts *opts)
{
	opts->limit = w->set.limit;
	int err = trapline_watch(w->target, w->what.address, w->what.len, w->what.access, opts,
				 &w->event);
	return err < 0 ? session_explain(&w->session, "watch", w->set.what, err) : 0;
}

static int arm(struct watch *w)
{
	TRAPLINE_OPTS(open, open_opts);
	TRAPLINE_OPTS(event, opts);

	open_opts.flags = w->set.no_bpf ? TRAPLINE_NO_BPF : 0;
	/* Calls come in storms, and each one lost is an object that never ends. */
	open_opts.records_bytes = w->objects ? 32u << 20 : 0;
	int err = trapline_open(w->set.pid, &open_opts, &w->target);
	if (err < 0)
		return session_explain(&w->session, "watch", title_of(w), err);
	opts.arg = w;
	opts.condition = w->condition;
	opts.flags = (w->set.stack ? TRAPLINE_STACK_BYTES : 0) |
		     (w->set.kernel ? TRAPLINE_KERNEL : 0);
	int status = w->objects ? watch_objects_arm(w->objects, w->target, &w->session, &opts) :
		     w->turns	? watch_turns_arm(w->turns, w->target, &w->session, &opts) :
				  arm_place(w, &opts);
	if (status)
		return status;
	if (!w->event)
		w->event = w->objects ? w->objects->slots.event[0] : w->turns->slots.event[0];
	if (w->set.kernel && trapline_event_mechanism(w->event) != TRAPLINE_BY_BPF)
		return cli_wrong(COMMAND, "--kernel needs BPF, which tells one write from the eight "
				 "stores it is made of, and BPF is not permitted here: run as root, or "
				 "see trapline check");
	return 0;
}

static int find_turns(struct watch *w, struct condition_names *names)
{
	w->turns = calloc(1, sizeof(*w->turns));
	if (!w->turns)
		return cli_wrong(COMMAND, "out of memory");
	int status = watch_turns_find(w->turns, w->symbols, &w->set);
	if (status)
		return status;
	const struct value_view *view = watch_turns_view(w->turns, &names->len);
	if (view)
		names->view = *view;
	w->what = w->turns->place[0];
	return 0;
}

static int find_objects(struct watch *w)
{
	w->objects = calloc(1, sizeof(*w->objects));
	if (!w->objects)
		return cli_wrong(COMMAND, "out of memory");
	int status = watch_objects_find(w->objects, w->symbols, &w->set);
	w->what = w->objects->what;
	return status;
}

/* What is watched, and what its values are in a condition. */
static int find(struct watch *w, struct condition_names *names)
{
	int status = 0;

	*names = (struct condition_names){ .symbols = w->symbols, .thread = w->set.thread };
	if (!w->set.at && (w->set.what_count > 1 || w->set.rotate_ns))
		return find_turns(w, names);
	if (w->set.at)
		status = find_objects(w);
	else
		status = watch_what_resolve(w->symbols, &w->set, &w->what);
	names->view = w->what.view;
	names->len = w->what.len;
	return status;
}

static int find_and_arm(struct watch *w)
{
	struct condition_names names;
	int status = session_open_symbols(&w->session, &w->symbols);

	if (!status)
		status = find(w, &names);
	if (!status)
		status = cli_condition(COMMAND, w->set.condition, &names, &w->condition);
	if (status || w->set.explain)
		return status;
	watch_output_begin(&w->output, &w->what, &w->set);
	w->output.info.is_several = w->objects || w->turns;
	if (w->turns) {
		w->output.info.what = w->turns->title;
		w->output.info.len = 0;
		if (!watch_turns_view(w->turns, &names.len))
			w->output.info.value_type = NULL;
	}
	if (w->set.record)
		status = watch_output_record(&w->output, w->set.record);
	if (status)
		return status;
	w->session.probe = w->objects ? w->objects->at.sites.site[0].address : w->what.address;
	session_open_memory(&w->session);
	return arm(w);
}

/* What can be watched in a command: it is started for that, and runs none of its own code. */
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

static int start(struct watch *w)
{
	int status = session_hold(&w->session);

	if (status)
		return status;
	w->set.pid = w->session.pid;
	status = find_and_arm(w);
	session_release(&w->session, !status && !w->set.explain);
	return status;
}

static void describe(const struct watch *w, char *buf, size_t n)
{
	char what[500];

	if (w->objects) {
		snprintf(buf, n, "%s (%zu byte%s) of objects at %s%s%s", w->what.name, w->what.len,
			 w->what.len == 1 ? "" : "s", w->set.at, w->set.until ? " until " : "",
			 w->set.until ? w->set.until : "");
	} else if (w->turns) {
		snprintf(buf, n, "%s (%zu words, %zu at a time)", w->turns->title,
			 w->turns->word_count, w->turns->slots.count);
	} else {
		watch_what_describe(&w->what, what, sizeof(what));
		snprintf(buf, n, "%s (%s)", w->what.name, what);
	}
}

static void say_start(const struct watch *w)
{
	static const char *const kinds[] = { "", "reads", "writes", "reads and writes" };
	static const char *const ways[] = { "signals", "BPF", "the kernel's ring" };
	struct trapline_stats st = { .size = sizeof(st) };
	char what[700];

	trapline_event_stats(w->event, &st);
	describe(w, what, sizeof(what));
	fprintf(stderr, "watching %s of %s in process %d, %llu thread%s, by %s\n",
		kinds[w->what.access], what, w->set.pid, (unsigned long long)st.threads,
		st.threads == 1 ? "" : "s", ways[trapline_event_mechanism(w->event) % 3]);
	if (trapline_event_mechanism(w->event) == TRAPLINE_BY_RING && !w->set.no_bpf)
		session_note_without_bpf(&w->session);
}

/* False: it is no hit, or one too many. */
static bool is_told(struct watch *w, const struct trapline_hit *hit, struct watch_which *which)
{
	*which = (struct watch_which){ .what = &w->what };
	if (w->objects && !watch_objects_hit(w->objects, hit, which))
		return false;
	if (w->turns && !watch_turns_hit(w->turns, hit, which))
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

static enum trapline_action on_hit(const struct trapline_hit *record)
{
	struct watch *w = record->arg;
	struct trapline_hit hit = *record;
	struct watch_which which;

	if (!is_told(w, &hit, &which))
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
			    watch_turns_tick(w->turns, w->pace.paused_since_ns != 0);
}

/* Which events a pause switches off. */
static void begin_pace(struct watch *w)
{
	const struct watch_slots *slots = w->objects ? &w->objects->slots :
					  w->turns   ? &w->turns->slots :
						       NULL;

	pace_start(&w->pace, slots ? slots->event : &w->event, slots ? slots->count : 1,
		   w->set.max_rate);
	if (!slots)
		return;
	w->session.tick = tick;
	w->session.arg = w;
}

static void sum_up(struct watch *w, struct run_end *end)
{
	if (w->objects)
		watch_objects_end(w->objects, end);
	else if (w->turns)
		watch_turns_end(w->turns, end);
	else
		event_stats_add(w->event, end);
	/* Only where the kernel did not see to the limit. */
	for (size_t i = 0; i < end->count_count; i++)
		if (w->beyond && !strcmp(end->counts[i].name, "limit")) {
			end->counts[i].value += w->beyond;
			end->delivered -= w->beyond;
		}
}

static void finish(struct watch *w, const char *reason)
{
	struct run_end end = { .reason = reason, .max_rate = w->set.max_rate };
	char command[64] = "";

	end.duration_ns = now_ns() - w->session.started_ns;
	end.sees_kernel = w->set.kernel;
	sum_up(w, &end);
	trapline_close(w->target);
	w->target = NULL;
	end.price_ns = watch_price_ns(&w->set);
	end.pauses = w->pace.pauses;
	end.paused_ns = w->pace.paused_ns;
	session_describe_command(&w->session, command, sizeof(command));
	end.command = command[0] ? command : NULL;
	watch_output_end(&w->output, &end);
	if (w->set.record && !w->output.is_broken)
		printf("recorded in %s: trapline report %s\n", w->set.record, w->set.record);
}

static void release(struct watch *w)
{
	trapline_close(w->target);
	if (w->objects)
		watch_objects_release(w->objects);
	if (w->turns)
		watch_turns_release(w->turns);
	free(w->objects);
	free(w->turns);
	watch_output_close(&w->output);
	symbols_close(w->symbols);
	trapline_condition_free(w->condition);
	session_close(&w->session);
}

/* Everything between looking up and the last line. An exit status. */
static int watch(struct watch *w)
{
	int status = watch_output_open(&w->output, &w->set);

	if (!status)
		status = start(w);
	if (status || w->set.explain)
		return status ? status : cli_condition_explain(COMMAND, w->condition);
	say_start(w);
	begin_pace(w);
	finish(w, session_loop(&w->session, w->target, &w->pace, &w->output.to, on_hit, &w->hits));
	return status;
}

static int command_run(const char *command, int argc, char **argv)
{
	struct watch w = { 0 };

	watch_command = command;
	int status = watch_settings_read(&w.set, argc, argv);
	if (status)
		return status < 0 ? CLI_OK : status;
	w.session = (struct session){ .name = command, .pid = w.set.pid,
				      .command = w.set.command, .limit = w.set.limit,
				      .for_ns = w.set.for_ns, .memory_fd = -1 };
	if (w.set.list)
		return list(&w);
	status = watch(&w);
	release(&w);
	if (!status && !w.set.explain)
		session_wait_for_command(&w.session);
	return status;
}

int cmd_watch(int argc, char **argv)
{
	return command_run("watch", argc, argv);
}

/* Breakpoints have options of their own. */
static bool has_break(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (!strcmp(argv[i], "--break") || !strcmp(argv[i], "-b"))
			return true;
	return false;
}

int cmd_record(int argc, char **argv)
{
	if (has_break(argc, argv))
		return cmd_record_break(argc, argv);
	return command_run("record", argc, argv);
}
