// SPDX-License-Identifier: MIT
/*
 * cmd_watch.c - `trapline watch`: who touches this memory?
 *
 * Look up, arm, print until one of these: Ctrl-C or SIGTERM, the limit, the time, the end of the
 * target, or its exec. The target is never stopped, and all that is in the kernel for us hangs on
 * our descriptors: however we end, nothing stays.
 */
#include "cli/cmd.h"
#include "cli/condition.h"
#include "cli/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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
	struct watch_pace pace;
	struct watch_names names;
	uint64_t hits;
	uint64_t started_ns;
	int memory_fd; /* of the target as it is now: reads nothing after an exec */
	bool output_broken;
	bool child_ended;
	int child_status;
};

static volatile sig_atomic_t interrupts; /* Ctrl-C */
static volatile sig_atomic_t terminated; /* SIGTERM, SIGHUP */

static void on_signal(int number)
{
	if (number == SIGINT)
		interrupts++;
	else
		terminated = 1;
}

static void catch_signals(void)
{
	struct sigaction sa = { .sa_handler = on_signal };

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
}

/* The last failure of the library, as one line. */
static int explain(const struct watch *w, const char *doing, int err)
{
	char text[600];

	trapline_explain(err, text, sizeof(text));
	return cli_wrong(COMMAND, "cannot %s %s in process %d: %s", doing, w->set.what, w->set.pid,
			 text);
}

static int load_symbols(struct watch *w)
{
	int err = symbols_open(w->set.pid, &w->symbols);

	if (err == -EACCES || err == -EPERM)
		return cli_wrong(COMMAND, "not permitted to read the memory map of process %d: run as "
				 "its user or as root", w->set.pid);
	if (err)
		return cli_wrong(COMMAND, "process %d has no program that could be read (%s): a kernel "
				 "thread, or it is ending", w->set.pid, strerror(-err));
	return 0;
}

static void open_memory(struct watch *w)
{
	char path[64];
	char byte;

	snprintf(path, sizeof(path), "/proc/%d/mem", w->set.pid);
	w->memory_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (w->memory_fd >= 0 && pread(w->memory_fd, &byte, 1, (off_t)w->what.address) != 1)
		cli_note(COMMAND, "nothing can be read at 0x%llx in process %d now",
			 (unsigned long long)w->what.address, w->set.pid);
}

static int arm(struct watch *w)
{
	TRAPLINE_OPTS(open, open_opts);
	TRAPLINE_OPTS(event, opts);

	open_opts.flags = w->set.no_bpf ? TRAPLINE_NO_BPF : 0;
	int err = trapline_open(w->set.pid, &open_opts, &w->target);
	if (err < 0)
		return explain(w, "watch", err);
	opts.arg = w;
	opts.limit = w->set.limit;
	opts.condition = w->condition;
	opts.flags = w->set.stack ? TRAPLINE_STACK_BYTES : 0;
	err = trapline_watch(w->target, w->what.address, w->what.len, w->what.access, &opts,
			     &w->event);
	if (err < 0)
		return explain(w, "watch", err);
	return 0;
}

static int find_and_arm(struct watch *w)
{
	int status = load_symbols(w);

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
	open_memory(w);
	return arm(w);
}

/* What can be watched in a command: it is started for that, and runs none of its own code. */
static int list(struct watch *w)
{
	int status = 0;

	if (w->set.command)
		status = watch_start(w->set.command, &w->set.pid);
	if (status)
		return status;
	status = load_symbols(w);
	if (!status)
		status = watch_list(w->symbols, &w->set);
	if (w->set.command)
		watch_start_kill(w->set.pid);
	symbols_close(w->symbols);
	return status;
}

static int start(struct watch *w)
{
	int status = 0;

	if (w->set.command)
		status = watch_start(w->set.command, &w->set.pid);
	if (status)
		return status;
	status = find_and_arm(w);
	catch_signals(); /* until here Ctrl-C ends us and, by EXITKILL, the command */
	if (!w->set.command)
		return status;
	if (status || w->set.explain)
		watch_start_kill(w->set.pid);
	else
		watch_start_go(w->set.pid);
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
	watch_names_fill(&w->names, &hit);
	watch_output_hit(&w->output, w->symbols, &hit);
	watch_pace_hit(&w->pace);
	return TRAPLINE_GO_ON;
}

/* Memory of a replaced program reads as empty; a page that was unmapped gives an error. */
static bool target_replaced(const struct watch *w)
{
	char byte;

	return w->memory_fd >= 0 && pread(w->memory_fd, &byte, 1, (off_t)w->what.address) == 0;
}

static bool child_has_ended(struct watch *w)
{
	if (w->set.command && !w->child_ended)
		w->child_ended = waitpid(w->set.pid, &w->child_status, WNOHANG) == w->set.pid;
	return w->child_ended;
}

/* Why to stop now; NULL: go on. */
static const char *reason_to_stop(struct watch *w, int polled)
{
	/* Ctrl-C reaches a command of ours too: the first is for it, and we see how it ends. */
	int enough = w->set.command ? 2 : 1;

	if (polled == -ESRCH || child_has_ended(w))
		return "the process ended";
	if (polled < 0 && polled != -EINTR && polled != -EAGAIN)
		return "reading the records failed";
	if (w->set.limit && w->hits >= w->set.limit)
		return "the limit was reached";
	if (terminated || interrupts >= enough)
		return "interrupted";
	if (w->output_broken)
		return "nobody reads the output any more";
	if (w->set.for_ns && watch_now_ns() - w->started_ns >= w->set.for_ns)
		return "the time is over";
	if (target_replaced(w))
		return kill(w->set.pid, 0) ? "the process ended" :
					     "the process ran another program (exec)";
	return NULL;
}

static int wait_ms(const struct watch *w, int tick_ms)
{
	if (!w->set.for_ns)
		return tick_ms;
	uint64_t passed = watch_now_ns() - w->started_ns;
	uint64_t left_ms = passed < w->set.for_ns ? (w->set.for_ns - passed) / 1000000u : 0;
	return left_ms < (uint64_t)tick_ms ? (int)left_ms : tick_ms;
}

static const char *run(struct watch *w)
{
	const char *reason = NULL;

	watch_pace_start(&w->pace, w->event, w->set.max_rate);
	while (!reason) {
		int tick_ms = watch_pace_tick(&w->pace);
		int polled = trapline_poll(w->target, wait_ms(w, tick_ms), on_hit);
		if (!watch_output_flush(&w->output, w->hits, w->pace.paused_since_ns != 0))
			w->output_broken = true;
		reason = reason_to_stop(w, polled);
	}
	trapline_event_disable(w->event);
	watch_pace_end(&w->pace);
	w->pace.budget = 0;
	while (trapline_poll(w->target, 0, on_hit) > 0)
		;
	return reason;
}

static void describe_child(struct watch *w, char *buf, size_t n)
{
	if (!w->child_ended)
		return;
	if (WIFSIGNALED(w->child_status))
		snprintf(buf, n, "killed by SIG%s", sigabbrev_np(WTERMSIG(w->child_status)));
	else if (WEXITSTATUS(w->child_status))
		snprintf(buf, n, "exited with status %d", WEXITSTATUS(w->child_status));
}

/* A command of ours holds the terminal: like any shell, wait until it gives it back. */
static void wait_for_child(struct watch *w)
{
	if (!w->set.command || terminated || interrupts || child_has_ended(w))
		return;
	cli_note(COMMAND, "no longer watching; waiting for %s (process %d) to end",
		 w->set.command[0], w->set.pid);
	while (!terminated && !interrupts && waitpid(w->set.pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static void finish(struct watch *w, const char *reason)
{
	struct run_end end = { .reason = reason, .max_rate = w->set.max_rate };
	char command[64] = "";

	end.duration_ns = watch_now_ns() - w->started_ns;
	watch_stats(w->event, &end);
	trapline_close(w->target);
	w->target = NULL;
	end.price_ns = watch_price_ns(&w->set);
	end.pauses = w->pace.pauses;
	end.paused_ns = w->pace.paused_ns;
	child_has_ended(w);
	describe_child(w, command, sizeof(command));
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
	if (w->memory_fd >= 0)
		close(w->memory_fd);
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
	w->started_ns = w->output.started_ns;
	finish(w, run(w));
	return status;
}

static int command_run(const char *command, int argc, char **argv)
{
	struct watch w = { .memory_fd = -1 };

	watch_command = command;
	int status = watch_settings_read(&w.set, argc, argv);
	if (status)
		return status < 0 ? CLI_OK : status;
	if (w.set.list)
		return list(&w);
	status = watch(&w);
	release(&w);
	if (!status && !w.set.explain)
		wait_for_child(&w);
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
