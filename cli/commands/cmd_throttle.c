/* SPDX-License-Identifier: MIT */
/*
 * cmd_throttle.c - `trapline throttle`: keep a program to a budget.
 *
 * The budgets are in memory that the processes share. The agent in each of them opens one event for
 * each budget, and a thread that finds the account in debt sleeps. This command waits and reports.
 */
#include "base/atomic.h"
#include "base/clock.h"
#include "cli/cmd.h"
#include "cli/inject/inject_opened.h"
#include "cli/launch/agent_start.h"
#include "cli/launch/program.h"
#include "cli/launch/run_state.h"
#include "cli/launch/target_lock.h"
#include "cli/launch/uncovered.h"
#include "cli/message.h"
#include "cli/observe/session.h"
#include "cli/opts.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "cli/watchdog.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <trapline/tools.h>

#include "record/throttle_region.h"

#define COMMAND "throttle"
#define TICK_NS 20000000
#define INSPECT_EVERY 5	  /* samples */
#define STARTING_WAITS 10 /* of that length */
#define ARM_MOST_NS 10000000000u
#define PROCESS_CLOCK 2 /* CPUCLOCK_SCHED of the kernel */
#define REGION_NAME "trapline-throttle"

struct settings {
	pid_t pid;
	const char *cpu;
	const char *faults;
	const char *count;
	const char *thread;
	uint64_t for_ns;
	int per_thread;
	int verbose;
	int kernel;
	char **command;
};

static const struct opt options[] = {
#define AT(member) offsetof(struct settings, member)
	{ "cpu", 0, OPT_STRING, AT(cpu), "SHARE",
	  "limit the CPU time of all threads together to 30% or 0.3 of one CPU; may exceed 100%" },
	{ "faults", 0, OPT_STRING, AT(faults), "N/s", "limit page faults to N per second" },
	{ "counter", 0, OPT_STRING, AT(count), "EVENT=N/s",
	  "limit another event: context-switches, migrations, instructions, cycles, branches" },
	{ "thread", 't', OPT_STRING, AT(thread), "NAME",
	  "throttle only threads of this name; 'NAME*' fits names that begin with it" },
	{ "per-thread", 0, OPT_FLAG, AT(per_thread), NULL, "give each thread the whole budget" },
	{ "kernel", 0, OPT_FLAG, AT(kernel), NULL,
	  "check inside system calls too: exact there, but some calls may return EINTR" },
	{ "pid", 'p', OPT_PID, AT(pid), "PID",
	  "throttle a running process until this command ends" },
	{ "for", 0, OPT_TIME, AT(for_ns), "TIME",
	  "lift the budget after TIME; the program continues" },
	{ "verbose", 'v', OPT_FLAG, AT(verbose), NULL,
	  "print at the end how often threads checked and slept" },
#undef AT
};

const struct opt_syntax throttle_syntax = {
	.command = COMMAND,
	.usage =
		"[--cpu SHARE] [--faults N/s] [--counter EVENT=N/s] [OPTION...] (-p PID | -- CMD [ARG...])",
	.about =
		"Keeps a program to a budget. A thread that exceeds the budget sleeps until the program is "
		"within it again. Processes that CMD forks share the budget.",
	.tail = "A thread sleeps where it is, even while it holds a lock that other threads wait for.\n\n"
		"examples:\n"
		"  trapline throttle --cpu 30% -- make\n"
		"  trapline throttle -p $(pidof indexer) --cpu 10% --thread 'compact*'",
	.options = options,
	.count = sizeof(options) / sizeof(options[0]),
};

struct throttling {
	struct settings set;
	struct throttle_region *region;
	struct agent_region memory;
	/* The budget of -p: it ends with the command, however this command ends. */
	int lock_fd;
	struct inject_opened opened;
	uint32_t count; /* of budgets; the region is the program's too, and decides nothing */
	uint64_t started_ns;
	uint64_t lifted_ns;  /* 0: not yet */
	bool is_over;	     /* the program has ended */
	uint64_t cpu_before; /* of the running process, as the kernel counts; 0: it started here */
	uint64_t cpu_last;
	int memory_fd;	/* of the running process: readable until it ends or executes a program */
	uint64_t probe; /* an address there */
	int status;	/* of the command */
	struct output output; /* the line on the terminal */
	struct uncovered uncovered;
};

/* "30%", "0.3", "1000/s", "1e6". */
static int parse_rate(const char *text, const char *unit, double *out)
{
	char *end;

	*out = strtod(text, &end);
	if (end == text || !isfinite(*out) || *out <= 0)
		return -1;
	if (!strcmp(end, unit) || !*end)
		return *end ? 1 : 0;
	return -1;
}

static int add(struct throttling *th, uint32_t counter, double per_second)
{
	struct throttle_limit *b = &th->region->limits[th->count];

	if (per_second < 1)
		return cli_wrong(COMMAND,
				 "a budget under 1 per second, or 1 ns of CPU time, would stop the "
				 "program: give a larger one");
	*b = (struct throttle_limit){ .counter = counter, .per_second = (uint64_t)per_second };
	b->flags = TRAPLINE_THROTTLE_SLEEP;
	b->flags |= th->set.per_thread ? TRAPLINE_THROTTLE_EACH : 0;
	b->flags |= th->set.kernel ? TRAPLINE_THROTTLE_KERNEL : 0;
	th->region->count = ++th->count;
	return CLI_OK;
}

/* More than the machine has limits nothing, and is most often a percentage without its sign. */
static int refuse_share(const char *text, bool has_unit, double share)
{
	double most = 100.0 * (double)sysconf(_SC_NPROCESSORS_ONLN);
	double percent = has_unit ? share : 100 * share;

	if (percent <= most)
		return CLI_OK;
	if (!has_unit && share <= most)
		return cli_wrong(COMMAND,
				 "--cpu %s means %.0f%%, more than this machine's %.0f%%: did you "
				 "mean %s%%?",
				 text, percent, most, text);
	return cli_wrong(COMMAND,
			 "--cpu %s is more than this machine's %.0f%%: it would limit nothing",
			 text, most);
}

static int add_cpu(struct throttling *th)
{
	const char *text = th->set.cpu;
	double share;

	if (!text)
		return CLI_OK;
	int has_unit = parse_rate(text, "%", &share);
	if (has_unit < 0)
		return cli_wrong(COMMAND,
				 "invalid --cpu '%s': expected a share of one CPU (examples: 30%%, "
				 "0.3)",
				 text);
	int status = refuse_share(text, has_unit, share);
	return status ? status : add(th, TRAPLINE_TASK_CLOCK, share * 1e9 / (has_unit ? 100 : 1));
}

static int add_faults(struct throttling *th)
{
	double rate;

	if (!th->set.faults)
		return CLI_OK;
	if (parse_rate(th->set.faults, "/s", &rate) < 0)
		return cli_wrong(COMMAND, "invalid --faults '%s': expected N/s (example: 1000/s)",
				 th->set.faults);
	return add(th, TRAPLINE_PAGE_FAULTS, rate);
}

static int add_count(struct throttling *th)
{
	static const struct {
		const char *name;
		uint32_t counter;
	} names[] = {
		{ "task-clock", TRAPLINE_TASK_CLOCK },
		{ "page-faults", TRAPLINE_PAGE_FAULTS },
		{ "context-switches", TRAPLINE_CONTEXT_SWITCHES },
		{ "migrations", TRAPLINE_MIGRATIONS },
		{ "instructions", TRAPLINE_INSTRUCTIONS },
		{ "cycles", TRAPLINE_CYCLES },
		{ "branches", TRAPLINE_BRANCHES },
	};
	const char *equals = th->set.count ? strchr(th->set.count, '=') : NULL;
	double rate;

	if (!th->set.count)
		return CLI_OK;
	if (!equals || parse_rate(equals + 1, "/s", &rate) < 0)
		return cli_wrong(COMMAND,
				 "invalid --counter '%s': expected EVENT=N/s (example: "
				 "context-switches=100/s)",
				 th->set.count);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(names[i].name, th->set.count, (size_t)(equals - th->set.count)) &&
		    !names[i].name[equals - th->set.count])
			return add(th, names[i].counter, rate);
	return cli_wrong(COMMAND,
			 "unknown counter '%.*s': expected task-clock, page-faults, "
			 "context-switches, migrations, instructions, cycles or branches",
			 (int)(equals - th->set.count), th->set.count);
}

static int make_region(struct throttling *th)
{
	int status = agent_region_open(COMMAND, REGION_NAME, THROTTLE_MAGIC, sizeof(*th->region),
				       &th->memory);

	if (status)
		return status;
	th->region = (struct throttle_region *)th->memory.head;
	if (th->set.thread)
		snprintf(th->region->thread, sizeof(th->region->thread), "%s", th->set.thread);
	status = add_cpu(th);
	if (!status)
		status = add_faults(th);
	if (!status)
		status = add_count(th);
	if (!status && !th->count)
		return cli_wrong(
			COMMAND,
			"no budget: give --cpu, --faults or --counter (example: --cpu 30%%)");
	return status;
}

static int throttle_settings_check(struct settings *set, int argc, char **argv, int first)
{
	const char *extra = first < argc ? argv[first] : NULL;

	if (session_check_program(COMMAND, extra, set->pid, set->command))
		return CLI_USAGE;
	if (set->pid && kill(set->pid, 0) && errno == ESRCH)
		return cli_wrong(COMMAND, "there is no process %d", set->pid);
	if (set->thread && strlen(set->thread) > 15)
		return cli_wrong(COMMAND,
				 "invalid --thread '%s': expected at most 15 bytes, as in every "
				 "thread's name",
				 set->thread);
	if (set->thread && set->count)
		return cli_wrong(COMMAND,
				 "--thread cannot be combined with --counter: the other counters "
				 "exist for the whole process only");
	return set->command ? agent_command_check(COMMAND, set->command) : CLI_OK;
}

static int throttle_settings_read(struct settings *set, int argc, char **argv)
{
	int status = 0;
	int n = session_cut_command(COMMAND, argc, argv, &set->command);

	if (n < 0)
		return CLI_USAGE;
	int first = opts_parse(&throttle_syntax, n, argv, set, &status);
	if (first < 0)
		return status ? status : -1;
	return throttle_settings_check(set, n, argv, first);
}

/* The CPU time of the process, no matter what has become of the agent there. */
static void read_cpu_time(struct throttling *th)
{
	const uint64_t cpu_ns = th->set.command ? 0 : clock_ns(~th->set.pid * 8 | PROCESS_CLOCK);

	if (!cpu_ns)
		return;
	th->cpu_last = cpu_ns;
	if (!th->cpu_before)
		th->cpu_before = th->cpu_last;
}

/* It has ended, or has executed another program, which does not have the agent. */
static bool has_left(const struct throttling *th)
{
	return (kill(th->set.pid, 0) && errno == ESRCH) ||
	       program_is_gone(th->memory_fd, th->probe);
}

static int say_attach(const struct throttling *th, int err)
{
	char why[RUN_WHY];

	if (err == -EBUSY)
		return cli_wrong(COMMAND,
				 "process %d has a budget of another trapline throttle: end "
				 "that one first",
				 th->set.pid);
	run_state_why(&th->region->run, why);
	return cli_wrong(COMMAND, "cannot throttle process %d: %s", th->set.pid,
			 *why ? why : strerror(-err));
}

/* Before, no check sends SIGTRAP. */
static int arm_there(struct throttling *th)
{
	uint32_t *const state = &th->region->run.state;

	inject_opened_begin(&th->opened, th->set.pid);
	atomic_set(state, (uint32_t)RUN_ARM);
	run_state_left(&th->region->run, RUN_ARM, th->set.pid, ARM_MOST_NS);
	if (atomic_get(state) == RUN_ARMED || program_has_ended(th->set.pid))
		return CLI_OK;
	const int err = th->region->run.error;
	return say_attach(th, err < 0 ? err : -ETIMEDOUT);
}

static int attach(struct throttling *th)
{
	const struct agent_share share = { .region = th->region,
					   .bytes = sizeof(*th->region),
					   .filled = SHARE_HEAD_BYTES,
					   .data_fd = th->memory.data_fd,
					   .lock_fd = &th->lock_fd,
					   .has_own_files = true };
	int result = 0;
	uint64_t end;

	agent_call_until(&asked_by, th->started_ns, th->set.for_ns);
	output_progress(&th->output, "loading the agent into process %d", th->set.pid);
	inject_opened_find(&th->opened, th->set.pid);
	int status = agent_call(COMMAND, th->set.pid, "throttle", &share, &result);
	if (!status && !result)
		status = arm_there(th);
	output_clear_status(&th->output);
	read_cpu_time(th);
	/* Only after the attach is it known that it can be looked into. */
	if (!status && !result && program_mapping(th->set.pid, NULL, 0, &th->probe, &end))
		th->memory_fd = program_open_memory(th->set.pid);
	return !status && result ? say_attach(th, result) : status;
}

static int begin(struct throttling *th)
{
	th->started_ns = clock_now_ns();
	if (!th->set.command)
		return attach(th);
	/* Daemons of the command become children of this process. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	return agent_command_start(COMMAND, th->set.command, "throttle", &th->memory, &th->set.pid);
}

/* The sleeping threads wake up; from here on nothing sleeps. */
static void lift(struct throttling *th)
{
	atomic_set(&th->region->stop, 1u);
	atomic_set(&th->region->run.stop, 1u);
	syscall(SYS_futex, &th->region->stop, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
	th->lifted_ns = clock_now_ns();
}

/* What was drawn; the account has no more than the threads have added. */
static double amount_of(const struct throttling *th, const struct throttle_limit *b, uint64_t drawn)
{
	if (b->counter == TRAPLINE_TASK_CLOCK && th->cpu_before && !th->set.thread)
		return (double)(th->cpu_last - th->cpu_before);
	return (double)drawn;
}

/* `CPU 29.8% (budget 30.0%)`; what one thread of --per-thread draws is not known. */
static void print_amount(FILE *f, const struct throttling *th, const struct throttle_limit *b,
			 uint64_t drawn, double seconds)
{
	static const char *const names[] = { "CPU",	   "page faults",  "context switches",
					     "migrations", "instructions", "cycles",
					     "branches" };
	bool is_cpu = b->counter == TRAPLINE_TASK_CLOCK;
	double unit = is_cpu ? 1e7 : 1;
	const char *sign = is_cpu ? "%" : "/s";
	int digits = is_cpu;

	fprintf(f, "%s ", names[b->counter % 7]);
	if (!th->set.per_thread)
		fprintf(f, "%.*f%s ", digits, amount_of(th, b, drawn) / seconds / unit, sign);
	fprintf(f, "(budget %.*f%s%s)", digits, (double)b->per_second / unit, sign,
		th->set.per_thread ? " for each thread" : "");
}

static void print_amounts(FILE *f, const struct throttling *th)
{
	uint64_t end = th->lifted_ns ? th->lifted_ns : clock_now_ns();
	double seconds = (double)(end - th->started_ns) / 1e9;

	for (uint32_t i = 0; i < th->count; i++) {
		fputs(i ? ", " : "", f);
		print_amount(f, th, &th->region->limits[i], th->region->budgets[i].account.drawn,
			     seconds);
	}
	fprintf(f, " in %.1f s", seconds);
}

static void print_details(const struct throttling *th)
{
	const struct throttle_region *r = th->region;

	fprintf(stderr, "processes throttled: %llu\n", (unsigned long long)r->processes);
	for (uint32_t i = 0; i < th->count; i++)
		fprintf(stderr, "budget %u: %llu checks, %llu sleeps, %.1f s asleep\n", i + 1,
			(unsigned long long)r->budgets[i].checks,
			(unsigned long long)r->budgets[i].sleeps,
			(double)r->budgets[i].slept_ns / 1e9);
}

/* 0, or an exit status: a process ran without a budget. */
static int print_uncovered(const struct throttling *th)
{
	const struct uncovered *u = &th->uncovered;
	uint64_t covered = th->region->processes;

	/* The process can write to what is shared; its agent has answered already. */
	if (!th->set.command || (covered && !u->count))
		return CLI_OK;
	if (!u->count)
		return cli_wrong(COMMAND,
				 "throttle covered no process: %s did not load the agent; see "
				 "trapline-throttle(1)",
				 th->set.command[0]);
	if (!covered)
		return cli_wrong(COMMAND, "throttle covered no process: %s (process %d): %s",
				 u->name, u->pid, u->why);
	if (u->count == 1)
		return cli_wrong(COMMAND, "throttle did not cover %s (process %d): %s", u->name,
				 u->pid, u->why);
	return cli_wrong(COMMAND,
			 "throttle did not cover %llu programs; the first was %s (process %d): %s",
			 (unsigned long long)u->count, u->name, u->pid, u->why);
}

static int print_summary(struct throttling *th)
{
	const struct throttle_region *r = th->region;

	output_clear_status(&th->output);
	fputs("trapline throttle: ", stderr);
	print_amounts(stderr, th);
	fputc('\n', stderr);
	if (th->set.verbose)
		print_details(th);
	if (th->is_over && !th->set.command && program_state(th->set.pid) == PROGRAM_RUNS)
		return cli_wrong(COMMAND,
				 "process %d executed another program, which has no budget: "
				 "throttle it again",
				 th->set.pid);
	if (r->failures)
		return cli_wrong(COMMAND, "%llu process%s ran without a budget: %.*s",
				 (unsigned long long)r->failures, r->failures == 1 ? "" : "es",
				 (int)sizeof(r->why), r->why);
	return print_uncovered(th);
}

/* Daemons of the command that have ended too. */
static void throttle_wait_for_children(struct throttling *th)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == th->set.pid) {
			th->status = status;
			th->is_over = true;
		}
}

static bool throttle_has_ended(struct throttling *th)
{
	if (th->is_over)
		return true;
	if (th->set.command)
		throttle_wait_for_children(th);
	else
		th->is_over = has_left(th);
	return th->is_over;
}

static bool throttle_is_time_over(const struct throttling *th)
{
	return th->set.for_ns && clock_now_ns() - th->started_ns >= th->set.for_ns;
}

static void throttle_show_status(struct throttling *th)
{
	char text[256] = "";
	FILE *f = th->set.command ? NULL : fmemopen(text, sizeof(text), "w");

	if (!f)
		return;
	print_amounts(f, th);
	fclose(f);
	output_progress(&th->output, "%s; Ctrl-C ends", text);
}

static void inspect(struct throttling *th)
{
	if (th->set.command)
		uncovered_inspect(&th->uncovered);
}

/* Until the budget ends. A command of Trapline gets Ctrl-C as well; other signals are forwarded. */
static void throttle_wait_for_end(struct throttling *th, bool until_time)
{
	struct timespec pause = { 0, TICK_NS };
	int ticks = 0;

	while (!throttle_has_ended(th) && !(until_time && throttle_is_time_over(th))) {
		if (asked_by && !th->set.command)
			break;
		watchdog_forward(th->set.pid);
		if (until_time)
			throttle_show_status(th);
		read_cpu_time(th);
		if (until_time && ticks++ % INSPECT_EVERY == 0)
			inspect(th);
		nanosleep(&pause, NULL);
	}
}

/* A budget ends with this command, and what the command has left behind is to keep it. */
static void wait_for_daemons(struct throttling *th)
{
	const struct uncovered *u = &th->uncovered;
	struct timespec pause = { 0, INSPECT_EVERY * TICK_NS };
	bool is_told = false;
	int waits = 0;

	inspect(th);
	while ((u->alive || (u->starting && waits++ < STARTING_WAITS)) && !asked_by &&
	       !throttle_is_time_over(th)) {
		if (!is_told && u->alive)
			cli_note(COMMAND,
				 "%s ended and left %" PRIu64 " process%s, such as %s (process "
				 "%d): the budget stays until the last one ends; Ctrl-C lifts it",
				 th->set.command[0], u->alive, u->alive == 1 ? "" : "es",
				 u->alive_name, u->alive_pid);
		is_told |= u->alive > 0;
		nanosleep(&pause, NULL);
		throttle_wait_for_children(th);
		inspect(th);
	}
}

/* Nothing of the budget stays in the running process, where it began. */
static void leave(struct throttling *th)
{
	read_cpu_time(th);
	if (th->lock_fd < 0)
		return;
	close(th->lock_fd);
	th->lock_fd = -1;
	if (throttle_has_ended(th))
		return;
	inject_opened_end(&th->opened, th->set.pid);
	if (target_has_our_thread(th->set.pid) && !throttle_has_ended(th))
		cli_note(
			COMMAND,
			"process %d did not answer: the disabled events of the budget close when it "
			"continues",
			th->set.pid);
}

/* The command that was started continues without a budget when the time is over. */
static int throttle_run(struct throttling *th)
{
	throttle_wait_for_end(th, true);
	if (th->set.command && th->is_over)
		wait_for_daemons(th);
	lift(th);
	leave(th);
	int failed = print_summary(th);
	if (th->set.command && !throttle_has_ended(th)) {
		cli_note(COMMAND, "the budget is lifted; waiting for %s (process %d) to end",
			 th->set.command[0], th->set.pid);
		throttle_wait_for_end(th, false);
	}
	return failed ? CLI_NO : th->set.command ? cli_status_of(th->status) : CLI_OK;
}

int cmd_throttle(int argc, char **argv)
{
	static struct throttling th = { .memory = AGENT_REGION_NONE,
					.memory_fd = -1,
					.lock_fd = -1,
					.uncovered.mapping = "/memfd:" REGION_NAME };
	int status = throttle_settings_read(&th.set, argc, argv);

	if (status)
		return status < 0 ? CLI_OK : status;
	status = agent_is_for_this(COMMAND);
	if (status)
		return status;
	th.output.status = terminal_has_status(STDERR_FILENO);
	status = make_region(&th);
	watchdog_start(COMMAND, false);
	if (!status)
		status = begin(&th);
	if (!status)
		status = throttle_run(&th);
	leave(&th);
	inject_opened_free(&th.opened);
	if (th.memory_fd >= 0)
		close(th.memory_fd);
	agent_region_close(&th.memory);
	return status;
}
