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

#include <string.h>

#define COMMAND watch_command

const char *watch_command;

struct watch {
	struct watch_settings set;
	struct watch_what what;
	struct symbols *symbols;
	struct trapline_condition *condition;
	struct trapline *target;
	struct trapline_event *event;
	struct watch_output output;
	struct session session;
	struct pace pace;
	struct thread_names names;
	uint64_t hits;
};

static int arm(struct watch *w)
{
	TRAPLINE_OPTS(open, open_opts);
	TRAPLINE_OPTS(event, opts);

	open_opts.flags = w->set.no_bpf ? TRAPLINE_NO_BPF : 0;
	int err = trapline_open(w->set.pid, &open_opts, &w->target);
	if (err < 0)
		return session_explain(&w->session, "watch", w->set.what, err);
	opts.arg = w;
	opts.limit = w->set.limit;
	opts.condition = w->condition;
	opts.flags = (w->set.stack ? TRAPLINE_STACK_BYTES : 0) |
		     (w->set.kernel ? TRAPLINE_KERNEL : 0);
	err = trapline_watch(w->target, w->what.address, w->what.len, w->what.access, &opts,
			     &w->event);
	if (err < 0)
		return session_explain(&w->session, "watch", w->set.what, err);
	if (w->set.kernel && trapline_event_mechanism(w->event) != TRAPLINE_BY_BPF)
		return cli_wrong(COMMAND, "--kernel needs BPF, which tells one write from the eight "
				 "stores it is made of, and BPF is not permitted here: run as root, or "
				 "see trapline check");
	return 0;
}

static int find_and_arm(struct watch *w)
{
	int status = session_open_symbols(&w->session, &w->symbols);

	if (!status)
		status = watch_what_resolve(w->symbols, &w->set, &w->what);
	if (status)
		return status;
	struct condition_names names = { .symbols = w->symbols, .thread = w->set.thread,
					 .view = w->what.view, .len = w->what.len };
	status = cli_condition(COMMAND, w->set.condition, &names, &w->condition);
	if (status || w->set.explain)
		return status;
	watch_output_begin(&w->output, &w->what, &w->set);
	if (w->set.record)
		status = watch_output_record(&w->output, w->set.record);
	if (status)
		return status;
	w->session.probe = w->what.address;
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

static void say_start(const struct watch *w)
{
	static const char *const kinds[] = { "", "reads", "writes", "reads and writes" };
	static const char *const ways[] = { "signals", "BPF", "the kernel's ring" };
	struct trapline_stats st = { .size = sizeof(st) };
	char what[500];

	trapline_event_stats(w->event, &st);
	watch_what_describe(&w->what, what, sizeof(what));
	fprintf(stderr, "watching %s of %s (%s) in process %d, %llu thread%s, by %s\n",
		kinds[w->what.access], w->what.name, what, w->set.pid,
		(unsigned long long)st.threads, st.threads == 1 ? "" : "s",
		ways[trapline_event_mechanism(w->event) % 3]);
}

static enum trapline_action on_hit(const struct trapline_hit *record)
{
	struct watch *w = record->arg;
	struct trapline_hit hit = *record;

	w->hits++;
	thread_names_fill(&w->names, &hit);
	watch_output_hit(&w->output, w->symbols, &hit);
	pace_hit(&w->pace);
	return TRAPLINE_GO_ON;
}

static void finish(struct watch *w, const char *reason)
{
	struct run_end end = { .reason = reason, .max_rate = w->set.max_rate };
	char command[64] = "";

	end.duration_ns = now_ns() - w->session.started_ns;
	end.sees_kernel = w->set.kernel;
	event_stats_add(w->event, &end);
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
	pace_start(&w->pace, &w->event, 1, w->set.max_rate);
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

int cmd_record(int argc, char **argv)
{
	return command_run("record", argc, argv);
}
