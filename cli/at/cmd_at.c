/* SPDX-License-Identifier: MIT */
/*
 * cmd_at.c - `trapline at`: stop a program at an exact point of its execution, and act there.
 *
 * A command starts at the same addresses each time; of a running process occurrences count from now
 * on. A uprobe counts occurrences in the kernel. At the occurrence before the point the process is
 * stopped and a breakpoint is armed; the next one stops before its first instruction.
 */
#include "cli/act/signal_number.h"
#include "cli/at/at.h"
#include "cli/at/at_each.h"
#include "cli/at/at_running.h"
#include "cli/at/at_state.h"
#include "cli/at/at_stepper.h"
#include "cli/cmd.h"
#include "cli/launch/program.h"
#include "cli/launch/start.h"
#include "cli/message.h"
#include "cli/observe/session.h"
#include "cli/opts.h"
#include "report/safe/private_file.h"

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
	pid_t pid; /* 0: a command */
	struct at_each each;
};

struct at {
	struct settings set;
	struct at_point point;
	struct symbols *symbols;
	struct trapline *target;
	struct trapline_event *counter; /* of occurrences; NULL: none */
	struct trapline_event *amount;	/* --counter */
	pid_t pid;
	struct act_guard guard; /* of a running process */
	int signal;
	struct at_steps steps;
	struct at_stepper stepper; /* of a point with steps */
	FILE *out;
	int written; /* exit status: CLI_NO, with a line printed, where the point could not be */
};

static const struct opt options[] = {
#define AT(member) offsetof(struct settings, member)
	{ "pid", 'p', OPT_PID, AT(pid), "PID", "a running process; occurrences count from now on" },
	{ "signal", 0, OPT_STRING, AT(signal), "SIG",
	  "deliver a signal there, before the instruction" },
	{ "snapshot", 0, OPT_FLAG, AT(snapshot), NULL,
	  "print the registers and the stack, and continue" },
	{ "stop", 0, OPT_FLAG, AT(stop), NULL, "leave the process stopped, for a debugger" },
	{ "counter", 'c', OPT_CHOICE, AT(counter), AT_COUNTERS,
	  "print the amount of a counter at the point, or run to an amount" },
	{ "json", 'j', OPT_FLAG, AT(json), NULL,
	  "print the point, or each broken run, as one JSON object" },
	{ "output", 'o', OPT_STRING, AT(output), "FILE",
	  "write to FILE instead of standard error" },
	{ "each", 0, OPT_STRING, AT(each.location), "LOCATION",
	  "run CMD once for each occurrence of LOCATION, with --signal SIG there" },
	{ "limit", 'n', OPT_COUNT, AT(each.limit), "N",
	  "with --each: at most N occurrences (default: 200)" },
	{ "check", 0, OPT_STRING, AT(each.check), "CMD",
	  "with --each: a run is broken if sh -c CMD fails; its input is the program's output, and STATUS its "
	  "exit status" },
	{ "jobs", 0, OPT_COUNT, AT(each.jobs), "N",
	  "with --each: N runs at a time (default: one per CPU)" },
	{ "timeout", 0, OPT_TIME, AT(each.timeout_ns), "TIME",
	  "with --each: consider a run hung after TIME (default: 10s)" },
	{ "verbose", 'v', OPT_FLAG, AT(each.verbose), NULL,
	  "with --each: print the runs that are not broken too" },
#undef AT
};

const struct opt_syntax at_syntax = {
	.command = COMMAND,
	.usage =
		"'LOCATION#N[+K] [if COND]' [OPTION...] { -p PID | -- CMD... }\n"
		"       trapline at --counter NAME 'LOCATION@AMOUNT[+K] [if COND]' [OPTION...] -- CMD...\n"
		"       trapline at --each 'LOCATION [if COND]' --signal SIG [OPTION...] -- CMD...",
	.about =
		"Runs CMD until it reaches LOCATION for the Nth time, stops it before that instruction, and "
		"acts there. With @AMOUNT it stops where the main thread has used AMOUNT of a counter. "
		"With +K, it first executes K more instructions of that thread. "
		"With -p, a running process is stopped there, and continues afterwards.\n\n"
		"With --each, runs CMD once for each occurrence of LOCATION, delivers a signal there, and "
		"reports the runs that break: killed, hung, another exit status, or a failed --check.\n\n"
		"LOCATION: FUNCTION, MODULE:FUNCTION, FILE:LINE, FUNCTION+OFFSET or 0xADDRESS. Only "
		"occurrences for which COND is true count; see trapline-condition(7).",
	.tail = "examples:\n"
		"  trapline at 'malloc#1000' --snapshot -- ./program\n"
		"  trapline at 'parse#41 if depth == 3' --signal SIGALRM -- ./program\n"
		"  trapline at 'parse#41+12' --snapshot -- ./program\n"
		"  trapline at 'parse#1 if depth > 9' --stop -p 4711\n"
		"  trapline at --each write --signal SIGALRM --check 'grep -q done' -- ./program",
	.options = options,
	.count = sizeof(options) / sizeof(options[0]),
};

/* The name of the first option that goes only with --each, or only without; NULL: none is given. */
static const char *option_of_other(const struct settings *set)
{
	const struct at_each *e = &set->each;

	if (e->location)
		return set->pid	     ? "-p PID" :
		       set->snapshot ? "--snapshot" :
		       set->stop     ? "--stop" :
		       set->counter  ? "--counter" :
				       NULL;
	return e->limit != AT_EACH_DEFAULT	? "--limit" :
	       e->jobs != AT_EACH_DEFAULT	? "--jobs" :
	       e->timeout_ns != AT_EACH_DEFAULT ? "--timeout" :
	       e->check				? "--check" :
	       e->verbose			? "--verbose" :
						  NULL;
}

static int at_settings_check(struct at *a, const char *point)
{
	const char *wrong = option_of_other(&a->set);

	if (a->set.signal && !(a->signal = signal_number(a->set.signal)))
		return cli_wrong(COMMAND, "no signal is named '%s'; such as SIGALRM or 14",
				 a->set.signal);
	if (wrong && a->set.each.location)
		return cli_wrong(COMMAND, "%s cannot be combined with --each", wrong);
	if (wrong)
		return cli_wrong(COMMAND, "%s needs --each LOCATION", wrong);
	if (a->set.each.location && point)
		return cli_wrong(COMMAND, "unexpected argument '%s': --each names the location",
				 point);
	if (a->set.each.location)
		return CLI_OK;
	if (!point)
		return cli_wrong(COMMAND, "no point: give LOCATION#N (example: 'malloc#1000'), or "
					  "--each LOCATION");
	if (a->set.command && a->set.pid)
		return cli_wrong(COMMAND, "give -p PID or -- CMD, not both");
	if (!a->set.command && !a->set.pid)
		return cli_wrong(COMMAND, AT_COMMAND_MISSING ", or -p PID");
	int status = at_parse(COMMAND, point, &a->point);
	if (!status && !a->point.nth && !a->set.counter)
		return cli_wrong(
			COMMAND,
			"LOCATION@AMOUNT needs --counter NAME (example: --counter syscalls)");
	if (!status && a->set.pid && a->set.counter)
		return cli_wrong(COMMAND,
				 "--counter cannot be combined with -p PID: the amount that a "
				 "process has used before is not known");
	return status;
}

static int at_settings_read(struct at *a, int argc, char **argv)
{
	int status = 0;
	int n = session_cut_command(COMMAND, argc, argv, &a->set.command);

	a->set.each = (struct at_each){ .limit = AT_EACH_DEFAULT,
					.jobs = AT_EACH_DEFAULT,
					.timeout_ns = AT_EACH_DEFAULT };
	if (n < 0)
		return CLI_USAGE;
	int first = opts_parse(&at_syntax, n, argv, &a->set, &status);
	if (first < 0)
		return status ? status : -1;
	if (first + 1 < n)
		return cli_wrong(
			COMMAND,
			"unexpected argument '%s': give one point, then -- and the command "
			"(example: 'malloc#1000')",
			argv[first + 1]);
	return at_settings_check(a, first < n ? argv[first] : NULL);
}

static int run_each(struct settings *set)
{
	struct at_each *each = &set->each;

	each->signal = set->signal;
	each->json = set->json;
	each->output = set->output;
	each->command = set->command;
	return at_each(each);
}

static int explain(const struct at *a, int err)
{
	char text[600];

	trapline_explain(err, text, sizeof(text));
	return cli_wrong(COMMAND, "cannot reach %s%c%llu: %s", a->point.location,
			 a->point.nth ? '#' : '@',
			 (unsigned long long)(a->point.nth ? a->point.nth : a->point.amount), text);
}

/* Counts from the program's first instruction, where each run is in the same state. */
static int open_amount(struct at *a)
{
	TRAPLINE_OPTS(event, opts);

	opts.scope = TRAPLINE_THREADS;
	opts.tids = &a->pid;
	opts.tid_count = 1;
	return trapline_count(a->target, at_counter(a->set.counter), &opts, &a->amount);
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

static int start_stepper(struct at *a)
{
	int err = a->point.has_steps ? at_stepper_start(&a->stepper) : 0;

	return err ? cli_wrong(COMMAND, "cannot start a process for the steps: %s",
			       strerror(-err)) :
		     CLI_OK;
}

static int at_attach(struct at *a)
{
	a->pid = a->set.pid;
	int status = at_running_open(COMMAND, a->pid, &a->symbols);

	if (!status)
		status = at_resolve(COMMAND, a->symbols, &a->point);
	if (!status)
		status = start_stepper(a);
	if (!status)
		status = at_running_hold(COMMAND, a->pid, &a->guard);
	if (status)
		return status;
	status = open_counter(a);
	if (status)
		kill(a->pid, SIGCONT);
	return status;
}

static int at_start(struct at *a)
{
	int status = start_stepper(a);

	if (status)
		return status;
	start_alike();
	status = start_command(COMMAND, a->set.command, &a->pid);
	if (status)
		return status;
	if (symbols_open(a->pid, &a->symbols))
		status = cli_wrong(COMMAND, "cannot read the program of %s", a->set.command[0]);
	if (!status)
		status = at_resolve(COMMAND, a->symbols, &a->point);
	if (!status)
		status = open_counter(a);
	if (!status && start_go_stopped(a->pid))
		status = cli_wrong(COMMAND, "cannot stop %s after its start", a->set.command[0]);
	if (status)
		start_kill(a->pid);
	return status;
}

static uint64_t occurrences(const struct at *a)
{
	struct trapline_stats stats = { .size = sizeof(stats) };

	trapline_event_stats(a->counter, &stats);
	return stats.delivered;
}

/* Returns the thread at the point, or 0 with a line printed: this run has no such point. */
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
		cli_wrong(COMMAND, "cannot reach %s#%llu: " AT_NOT_REACHED " %llu occurrence%s%s",
			  a->point.location, (unsigned long long)a->point.nth,
			  (unsigned long long)occurrences(a), occurrences(a) == 1 ? "" : "s",
			  a->point.parsed ? " with the condition true" : "");
	else
		explain(a, got);
	return 0;
}

static bool has_trap(const struct at *a, pid_t tid, const char *field)
{
	char text[64];

	return program_status(a->pid, tid, field, text, sizeof(text)) &&
	       strtoull(text, NULL, 16) >> (SIGTRAP - 1) & 1;
}

/*
 * The kernel forces the SIGTRAP of a step: where the signal is blocked or ignored it resets the
 * handler first, for good (force_sig_info_to_task). The program would not be what it was.
 */
static bool is_harmed_by_steps(const struct at *a, pid_t tid)
{
	const char *how = has_trap(a, tid, "SigBlk") ? "blocks" :
			  has_trap(a, tid, "SigIgn") ? "ignores" :
						       NULL;

	if (how)
		cli_wrong(COMMAND,
			  "cannot make %llu steps: thread %d %s SIGTRAP, and a step would end "
			  "that; leave out +%llu",
			  (unsigned long long)a->point.steps, tid, how,
			  (unsigned long long)a->point.steps);
	return how != NULL;
}

/* The amount is the one at the location, before the steps: another run can be sent to it. */
static int read_state(struct at *a, pid_t tid, struct at_state *state)
{
	if (a->amount)
		trapline_event_read(a->amount, &state->value);
	if (a->point.has_steps) {
		/* A step would execute its breakpoint in the code. */
		trapline_event_close(a->counter);
		a->counter = NULL;
	}
	if (a->point.has_steps && is_harmed_by_steps(a, tid))
		return CLI_NO;
	int err = a->stepper.pid ? at_stepper_read(&a->stepper, a->pid, tid, state) :
				   at_state_read(a->pid, tid, state);
	a->steps = state->steps;
	if (err)
		return cli_wrong(COMMAND, "cannot read the registers of thread %d: %s", tid,
				 strerror(-err));
	if (!state->steps.is_over)
		return CLI_OK;
	cli_wrong(COMMAND,
		  "cannot make %llu steps: thread %d ended, or executed another program, after "
		  "%llu",
		  (unsigned long long)state->steps.wanted, tid,
		  (unsigned long long)state->steps.made);
	return CLI_NO;
}

/* The first failure is printed, once. The program continues all the same. */
static void flush_point(struct at *a)
{
	errno = 0;
	if (!fflush(a->out) && !ferror(a->out))
		return;
	cli_wrong(COMMAND, "cannot write %s: %s",
		  a->set.output	   ? a->set.output :
		  a->out == stdout ? "standard output" :
				     "standard error",
		  strerror(errno ? errno : EIO));
	a->written = CLI_NO;
}

static int print_point(struct at *a, pid_t tid)
{
	struct at_state state = { .count = a->point.nth,
				  .counter = a->set.counter,
				  .has_steps = a->point.has_steps,
				  .steps.wanted = a->point.steps };
	int status = read_state(a, tid, &state);

	if (status)
		return status;
	if (a->set.json)
		at_state_json(a->out, a->symbols, &state, a->set.snapshot);
	else if (a->set.snapshot || !a->signal)
		at_state_text(a->out, a->symbols, &state, a->point.location, a->set.snapshot);
	flush_point(a);
	return CLI_OK;
}

static int act(struct at *a, pid_t tid)
{
	int status = print_point(a, tid);

	/* The thread is not at the point. */
	if (status && a->point.has_steps) {
		kill(a->pid, SIGCONT);
		return status;
	}
	if (a->signal)
		syscall(SYS_tgkill, a->pid, tid, a->signal);
	if (!a->set.stop) {
		kill(a->pid, SIGCONT);
		return status ? status : a->written;
	}
	cli_note(COMMAND,
		 "process %d is stopped in thread %d: inspect it with gdb -p %d, resume it with "
		 "kill -CONT %d",
		 a->pid, tid, tid, a->pid);
	return status ? status : a->written;
}

/* Returns what a shell would. A program that was left stopped is waited for as well. */
static int wait_for_command(const struct at *a)
{
	int status = a->steps.status;

	if (a->set.pid)
		return CLI_OK;
	while (!a->steps.is_reaped && waitpid(a->pid, &status, 0) < 0 && errno == EINTR)
		;
	return cli_status_of(status);
}

static int at_open_output(struct at *a)
{
	a->out = a->set.json && !a->set.output ? stdout : stderr;
	if (!a->set.output)
		return CLI_OK;
	a->out = private_file(a->set.output);
	return a->out ? CLI_OK :
			cli_wrong(COMMAND, "cannot write %s: %s", a->set.output, strerror(errno));
}

int cmd_at(int argc, char **argv)
{
	struct at a = { 0 };
	int status = at_settings_read(&a, argc, argv);

	if (status)
		return status < 0 ? CLI_OK : status;
	if (a.set.each.location)
		return run_each(&a.set);
	status = at_open_output(&a);
	if (!status)
		status = a.set.pid ? at_attach(&a) : at_start(&a);
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
	act_guard_end(&a.guard);
	at_stepper_end(&a.stepper);
	trapline_condition_free(a.point.parsed);
	symbols_close(a.symbols);
	return status;
}
