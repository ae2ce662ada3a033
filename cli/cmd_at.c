// SPDX-License-Identifier: MIT
/*
 * cmd_at.c - `trapline at`: stop a program at an exact point of its execution, and act there.
 *
 * The command is started at the same addresses each time. A uprobe counts passes in the kernel; at
 * the pass before the point the process is stopped, a breakpoint is armed, and the next pass stops
 * before its first instruction.
 */
#include "cli/at.h"
#include "cli/at_state.h"
#include "cli/cmd.h"
#include "cli/opts.h"
#include "cli/session.h"
#include "cli/start.h"

#include <trapline/condition.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMMAND "at"

struct settings {
	const char *signal;
	const char *output;
	const char *counter;
	int snapshot;
	int stop;
	int json;
	char **command;
};

struct at {
	struct settings set;
	struct at_point point;
	struct symbols *symbols;
	struct trapline *target;
	struct trapline_event *counter; /* of passes; NULL: none */
	struct trapline_event *amount;	/* --counter */
	pid_t pid;
	int signal;
	int what; /* enum trapline_counter */
	struct at_steps steps; /* how they went */
	FILE *out;
};

static const struct opt options[] = {
#define AT(member) offsetof(struct settings, member)
	{ "signal", 's', OPT_STRING, AT(signal), "SIG", "deliver a signal there, before the instruction" },
	{ "counter", 'c', OPT_STRING, AT(counter), "NAME",
	  "branches, instructions, cycles, page-faults, syscalls" },
	{ "snapshot", 0, OPT_FLAG, AT(snapshot), NULL, "print the registers and the stack, and go on" },
	{ "break", 'b', OPT_FLAG, AT(stop), NULL, "leave the process stopped, for a debugger" },
	{ "json", 0, OPT_FLAG, AT(json), NULL, "the point as one JSON object" },
	{ "output", 'o', OPT_STRING, AT(output), "FILE", "write to FILE instead of standard error" },
#undef AT
};

static const struct opt_syntax syntax = {
	.command = COMMAND,
	.usage = "'PLACE#N[+K] [if COND]' [OPTION...] -- CMD ARG...\n"
		 "       trapline at --counter NAME 'PLACE@AMOUNT[+K] [if COND]' [OPTION...] -- CMD ARG...",
	.about = "Runs a command to the Nth time that it comes to a place, exactly, and acts there; or to\n"
		 "the pass of the place at which its main thread has used up AMOUNT of a counter, which\n"
		 "--counter NAME with PLACE#N tells. +K: K instructions of that thread further, single steps.\n\n"
		 "PLACE: a function, module:function, file:line, function+offset or 0xADDRESS. With COND only\n"
		 "passes for which it holds count; see trapline-condition(7).",
	.tail = "examples:\n"
		"  trapline at 'malloc#1000000' --snapshot -- ./program\n"
		"  trapline at 'parse#41 if depth == 3' --signal SIGALRM -- ./program\n"
		"  trapline at 'parse#41+12' --snapshot -- ./program",
	.options = options,
	.count = sizeof(options) / sizeof(options[0]),
};

static int settings_read(struct at *a, int argc, char **argv)
{
	int status = 0;
	int n = session_cut_command(COMMAND, argc, argv, &a->set.command);

	if (n < 0)
		return CLI_USAGE;
	int first = opts_parse(&syntax, n, argv, &a->set, &status);
	if (first < 0)
		return status ? status : -1;
	if (!a->set.command)
		return cli_wrong(COMMAND, "which command? It goes after --");
	if (first + 1 != n)
		return cli_wrong(COMMAND, "one point, such as 'malloc#1000', and then -- and a command");
	if (a->set.signal && !(a->signal = at_signal(a->set.signal)))
		return cli_wrong(COMMAND, "no signal '%s'", a->set.signal);
	a->what = a->set.counter ? at_counter(a->set.counter) : 0;
	if (a->what < 0)
		return cli_wrong(COMMAND, "--counter is branches, instructions, cycles, page-faults or "
				 "syscalls, not '%s'", a->set.counter);
	status = at_parse(COMMAND, argv[first], &a->point);
	if (!status && !a->point.nth && !a->set.counter)
		return cli_wrong(COMMAND, "an amount of what? --counter branches, for instance; or PLACE#N");
	return status;
}

static int explain(const struct at *a, int err)
{
	char text[600];

	trapline_explain(err, text, sizeof(text));
	return cli_wrong(COMMAND, "%s%c%llu: %s", a->point.place, a->point.nth ? '#' : '@',
			 (unsigned long long)(a->point.nth ? a->point.nth : a->point.amount), text);
}

/* From here on, where each run is at the same instruction: the program's first. */
static int open_amount(struct at *a)
{
	TRAPLINE_OPTS(event, opts);

	opts.scope = TRAPLINE_THREADS;
	opts.tids = &a->pid;
	opts.tid_count = 1;
	return trapline_count(a->target, (enum trapline_counter)a->what, &opts, &a->amount);
}

static int open_counter(struct at *a)
{
	TRAPLINE_OPTS(event, opts);
	int err = trapline_open(a->pid, NULL, &a->target);

	opts.flags = TRAPLINE_QUIET;
	opts.condition = a->point.parsed;
	if (!err && a->set.counter)
		err = open_amount(a);
	if (!err && a->point.nth)
		err = trapline_break_sites(a->target, &a->point.address, 1, &opts, &a->counter);
	return err ? explain(a, err) : CLI_OK;
}

static int start(struct at *a)
{
	start_alike();
	int status = start_command(COMMAND, a->set.command, &a->pid);

	if (status)
		return status;
	if (symbols_open(a->pid, &a->symbols))
		status = cli_wrong(COMMAND, "%s has no program that could be read",
				   a->set.command[0]);
	if (!status)
		status = at_resolve(COMMAND, a->symbols, &a->point);
	if (!status)
		status = open_counter(a);
	if (!status && start_go_stopped(a->pid))
		status = cli_wrong(COMMAND, "%s could not be held", a->set.command[0]);
	if (status)
		start_kill(a->pid);
	return status;
}

static uint64_t passes(const struct at *a)
{
	struct trapline_stats stats = { .size = sizeof(stats) };

	trapline_event_stats(a->counter, &stats);
	return stats.delivered;
}

/* To the point. Its thread, or 0 with a line printed: there is no such point in this run. */
static pid_t run_to(struct at *a)
{
	struct trapline_point point = {
		.size = sizeof(point),
		.counter = a->counter ? a->counter : a->amount,
		.count = a->counter ? a->point.nth - 1 : a->point.amount,
		.ip = a->point.address,
		.condition = a->point.parsed,
	};
	int got = trapline_run_to(a->target, a->counter ? 0 : a->pid, &point, -1);

	if (got > 0)
		return got;
	if (got == -ESRCH && a->counter)
		cli_wrong(COMMAND, "the program ended before: it came to %s %llu time%s%s",
			  a->point.place, (unsigned long long)passes(a), passes(a) == 1 ? "" : "s",
			  a->point.parsed ? " with the condition true" : "");
	else
		explain(a, got);
	return 0;
}

/* The amount is that at the place: what another run is told to go to, and to step from. */
static int read_state(struct at *a, pid_t tid, struct at_state *state)
{
	if (a->amount)
		trapline_event_read(a->amount, &state->value);
	if (a->point.has_steps) {
		/* Its breakpoint in the code would be stepped on. */
		trapline_event_close(a->counter);
		a->counter = NULL;
	}
	int err = at_state_read(a->pid, tid, state);
	a->steps = state->steps;
	if (err)
		return cli_wrong(COMMAND, "the registers of thread %d cannot be read: %s", tid,
				 strerror(-err));
	if (!state->steps.is_over)
		return CLI_OK;
	cli_wrong(COMMAND, "thread %d ended, or executed another program, after %llu of %llu steps", tid,
		  (unsigned long long)state->steps.made, (unsigned long long)state->steps.wanted);
	return CLI_NO;
}

static int say(struct at *a, pid_t tid)
{
	struct at_state state = { .count = a->point.nth, .counter = a->set.counter,
				  .has_steps = a->point.has_steps,
				  .steps.wanted = a->point.steps };
	int status = read_state(a, tid, &state);

	if (status)
		return status;
	if (a->set.json)
		at_state_json(a->out, a->symbols, &state, a->set.snapshot);
	else if (a->set.snapshot || !a->signal)
		at_state_text(a->out, a->symbols, &state, a->point.place, a->set.snapshot);
	fflush(a->out);
	return CLI_OK;
}

static int act(struct at *a, pid_t tid)
{
	int status = say(a, tid);

	/* Nobody knows where it is. */
	if (status && a->point.has_steps) {
		kill(a->pid, SIGCONT);
		return status;
	}
	if (a->signal)
		syscall(SYS_tgkill, a->pid, tid, a->signal);
	if (!a->set.stop) {
		kill(a->pid, SIGCONT);
		return status;
	}
	cli_note(COMMAND, "process %d is stopped in thread %d; gdb -p %d looks at it, kill -CONT %d "
		 "lets it go on", a->pid, tid, tid, a->pid);
	return status;
}

/* As a shell tells it; a program that is stopped for somebody goes on being waited for. */
static int wait_for_command(const struct at *a)
{
	int status = a->steps.status;

	while (!a->steps.is_reaped && waitpid(a->pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int open_output(struct at *a)
{
	a->out = a->set.json && !a->set.output ? stdout : stderr;
	if (!a->set.output)
		return CLI_OK;
	a->out = fopen(a->set.output, "we");
	return a->out ? CLI_OK : cli_wrong(COMMAND, "cannot write %s: %s", a->set.output,
					   strerror(errno));
}

int cmd_at(int argc, char **argv)
{
	struct at a = { 0 };
	int status = settings_read(&a, argc, argv);

	if (status)
		return status < 0 ? CLI_OK : status;
	status = open_output(&a);
	if (!status)
		status = start(&a);
	if (!status) {
		pid_t tid = run_to(&a);

		status = tid ? act(&a, tid) : CLI_NO;
		trapline_close(a.target);
		if (!tid)
			kill(a.pid, SIGCONT);
		int ended = wait_for_command(&a);
		status = status ? status : ended;
	} else {
		trapline_close(a.target);
	}
	trapline_condition_free(a.point.parsed);
	symbols_close(a.symbols);
	return status;
}
