// SPDX-License-Identifier: MIT
/*
 * cmd_throttle.c - `trapline throttle`: a program that keeps to a budget by itself.
 *
 * The budgets are in memory shared with the processes; the agent in each of them opens one event a
 * budget, and the thread that finds the account in debt sleeps. This command only waits and tells.
 */
#include "cli/agent_start.h"
#include "cli/cmd.h"
#include "cli/opts.h"
#include "cli/session.h"

#include <errno.h>
#include <linux/futex.h>
#include <math.h>
#include <stdbool.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <trapline/tools.h>

#include "record/throttle.h"

#define COMMAND "throttle"
#define TICK_NS 20000000

struct settings {
	pid_t pid;
	const char *cpu;
	const char *faults;
	const char *count;
	const char *threads;
	uint64_t for_ns;
	int each;
	int kernel;
	char **command;
};

static const struct opt options[] = {
#define AT(member) offsetof(struct settings, member)
	{ "cpu", 0, OPT_STRING, AT(cpu), "SHARE", "of one CPU, over all threads: 30% or 0.3; may be over 100%" },
	{ "faults", 0, OPT_STRING, AT(faults), "N/s", "page faults a second" },
	{ "count", 0, OPT_STRING, AT(count), "EVENT=N/s",
	  "another counter: context-switches, migrations, instructions, cycles, branches" },
	{ "threads", 0, OPT_STRING, AT(threads), "NAME",
	  "only threads of this name; NAME* for those that begin so" },
	{ "each", 0, OPT_FLAG, AT(each), NULL, "every thread has the whole budget to itself" },
	{ "kernel", 0, OPT_FLAG, AT(kernel), NULL,
	  "look inside system calls too: exact there, but some calls may return EINTR" },
	{ "pid", 'p', OPT_PID, AT(pid), "PID", "a running process, until this command ends" },
	{ "for", 0, OPT_SECONDS, AT(for_ns), "SECONDS", "end after this time (with -p)" },
#undef AT
};

static const struct opt_syntax syntax = {
	.command = COMMAND,
	.usage = "[--cpu SHARE] [--faults N/s] [--count EVENT=N/s] [OPTION...] (-p PID | -- CMD ARG...)",
	.about = "Keeps a program to a budget. The thread that has drawn too much sleeps until it is\n"
		 "earned, in its own context; forked processes draw from the same account.",
	.tail = "A thread sleeps where it stands, also while it holds a lock that others wait for.\n\n"
		"examples:\n"
		"  trapline throttle --cpu 30% -- make\n"
		"  trapline throttle -p $(pidof indexer) --cpu 10% --threads 'compact*'",
	.options = options,
	.count = sizeof(options) / sizeof(options[0]),
};

struct throttling {
	struct settings set;
	struct throttle_region *region;
	int region_fd;
	uint64_t started_ns;
	uint64_t cpu_before_ns; /* of a process that ran already */
	int status;		/* of the command */
};

static volatile sig_atomic_t stopped;
static volatile sig_atomic_t is_to_forward; /* a command of ours does not get it without us */

static void on_signal(int number, siginfo_t *info, void *context)
{
	is_to_forward = !cli_is_from_terminal(info);
	stopped = number;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

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
	struct throttle_budget *b = &th->region->budgets[th->region->count];

	if (per_second < 1)
		return cli_wrong(COMMAND, "a budget under 1 a second (or 1 ns of CPU time) stops the "
				 "program for ever");
	*b = (struct throttle_budget){ .counter = counter, .per_second = (uint64_t)per_second };
	b->flags = TRAPLINE_THROTTLE_SLEEP;
	b->flags |= th->set.each ? TRAPLINE_THROTTLE_EACH : 0;
	b->flags |= th->set.kernel ? TRAPLINE_THROTTLE_KERNEL : 0;
	th->region->count++;
	return CLI_OK;
}

static int add_cpu(struct throttling *th)
{
	double share;

	if (!th->set.cpu)
		return CLI_OK;
	int has_unit = parse_rate(th->set.cpu, "%", &share);
	if (has_unit < 0)
		return cli_wrong(COMMAND, "--cpu wants a share of a CPU, such as 30%% or 0.3, not '%s'",
				 th->set.cpu);
	return add(th, TRAPLINE_TASK_CLOCK, share * 1e9 / (has_unit ? 100 : 1));
}

static int add_faults(struct throttling *th)
{
	double rate;

	if (!th->set.faults)
		return CLI_OK;
	if (parse_rate(th->set.faults, "/s", &rate) < 0)
		return cli_wrong(COMMAND, "--faults wants a number a second, such as 1000/s, not '%s'",
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
		return cli_wrong(COMMAND, "--count wants EVENT=N/s, such as instructions=1e9/s, not "
				 "'%s'", th->set.count);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(names[i].name, th->set.count, (size_t)(equals - th->set.count)) &&
		    !names[i].name[equals - th->set.count])
			return add(th, names[i].counter, rate);
	return cli_wrong(COMMAND, "no counter '%.*s': task-clock, page-faults, context-switches, "
			 "migrations, instructions, cycles or branches",
			 (int)(equals - th->set.count), th->set.count);
}

static int make_region(struct throttling *th)
{
	th->region = agent_region_open("trapline-throttle", sizeof(*th->region), &th->region_fd);
	if (!th->region)
		return cli_wrong(COMMAND, "no memory to share with the program: %s",
				 strerror(errno));
	th->region->magic = THROTTLE_MAGIC;
	th->region->bytes = sizeof(*th->region);
	th->region->observer = getpid();
	if (th->set.threads)
		snprintf(th->region->thread, sizeof(th->region->thread), "%s", th->set.threads);
	int status = add_cpu(th);
	if (!status)
		status = add_faults(th);
	if (!status)
		status = add_count(th);
	if (!status && !th->region->count)
		return cli_wrong(COMMAND, "how much? Give --cpu, --faults or --count");
	return status;
}

static int settings_check(struct settings *set, int argc, char **argv, int first)
{
	if (first < argc)
		return cli_wrong(COMMAND, "'%s' stands alone; a command goes after --", argv[first]);
	if (set->pid && set->command)
		return cli_wrong(COMMAND, "either -p PID or -- CMD, not both");
	if (!set->pid && !set->command)
		return cli_wrong(COMMAND, "which program? Give -p PID, or -- CMD ARG... to start one");
	if (set->pid && kill(set->pid, 0) && errno == ESRCH)
		return cli_wrong(COMMAND, "no process %d", set->pid);
	if (set->threads && strlen(set->threads) > 15)
		return cli_wrong(COMMAND, "a thread's name has 15 bytes at most");
	if (set->threads && set->count)
		return cli_wrong(COMMAND, "--threads goes with --cpu and --faults: other counters are "
				 "known for the whole process only");
	return set->command ? agent_command_check(COMMAND, set->command) : CLI_OK;
}

static int settings_read(struct settings *set, int argc, char **argv)
{
	int status = 0;
	int n = session_cut_command(COMMAND, argc, argv, &set->command);

	if (n < 0)
		return CLI_USAGE;
	int first = opts_parse(&syntax, n, argv, set, &status);
	if (first < 0)
		return status ? status : -1;
	return settings_check(set, n, argv, first);
}

/* CPU time of a process so far, from outside. */
static uint64_t process_cpu_ns(pid_t pid)
{
	clockid_t clock;
	struct timespec used = { 0 };

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &used))
		return 0;
	return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

static int begin(struct throttling *th)
{
	const struct agent_share share = { th->region, sizeof(*th->region), sizeof(*th->region) };
	char text[128];
	int result = 0;

	agent_option("throttle", th->region_fd, text, sizeof(text));
	th->started_ns = now_ns();
	if (th->set.command)
		return agent_command_start(COMMAND, th->set.command, text, &th->set.pid);
	th->cpu_before_ns = process_cpu_ns(th->set.pid);
	int status = agent_call(COMMAND, th->set.pid, "throttle", &share, &result);
	if (!status && result == -EBUSY)
		return cli_wrong(COMMAND, "process %d is kept to a budget by another trapline throttle: "
				 "end that one first", th->set.pid);
	if (!status && result)
		return cli_wrong(COMMAND, "process %d: the agent could not begin: %s", th->set.pid,
				 strerror(-result));
	return status;
}

static bool is_over(struct throttling *th)
{
	if (th->set.command)
		return waitpid(th->set.pid, &th->status, WNOHANG) == th->set.pid;
	if (kill(th->set.pid, 0) && errno == ESRCH)
		return true;
	return th->set.for_ns && now_ns() - th->started_ns >= th->set.for_ns;
}

/* Ctrl-C reaches a command of ours too; other signals are passed on. */
static void wait_for_end(struct throttling *th)
{
	struct timespec pause = { 0, TICK_NS };
	bool passed_on = false;

	while (!is_over(th)) {
		if (stopped && !th->set.command)
			break;
		if (stopped && is_to_forward && !passed_on) {
			kill(th->set.pid, stopped);
			passed_on = true;
		}
		nanosleep(&pause, NULL);
	}
}

static void say_budget(const struct throttle_budget *b, double seconds, bool each)
{
	static const char *const names[] = { "CPU", "page faults", "context switches", "migrations",
					     "instructions", "cycles", "branches" };
	double asked = (double)b->per_second;
	double got = (double)b->account.drawn / seconds;

	if (b->counter == TRAPLINE_TASK_CLOCK) {
		fprintf(stderr, "CPU: asked %.1f%%%s", asked / 1e7, each ? " for each thread" : "");
		if (!each)
			fprintf(stderr, ", got %.1f%% of a CPU", got / 1e7);
	} else {
		fprintf(stderr, "%s: asked %.0f/s%s", names[b->counter % 7], asked,
			each ? " for each thread" : "");
		if (!each)
			fprintf(stderr, ", got %.0f/s", got);
	}
	fprintf(stderr, "; looked %llu times, slept %llu times, %.1f s in all\n",
		(unsigned long long)b->checks, (unsigned long long)b->sleeps,
		(double)b->slept_ns / 1e9);
}

static int say_all(struct throttling *th)
{
	const struct throttle_region *r = th->region;
	double seconds = (double)(now_ns() - th->started_ns) / 1e9;

	fprintf(stderr, "\ntrapline throttle: %.1f s, begun in %llu program%s\n", seconds,
		(unsigned long long)r->processes, r->processes == 1 ? "" : "s");
	for (uint32_t i = 0; i < r->count; i++)
		say_budget(&r->budgets[i], seconds, th->set.each);
	if (r->failures)
		return cli_wrong(COMMAND, "%llu process%s ran without a budget: %.*s",
				 (unsigned long long)r->failures, r->failures == 1 ? "" : "es",
				 (int)sizeof(r->why), r->why);
	if (!r->processes)
		return cli_wrong(COMMAND, "the agent began in no process: nothing was throttled");
	return CLI_OK;
}

/* Those that sleep wake up. */
static void end_all(struct throttling *th)
{
	__atomic_store_n(&th->region->stop, 1u, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &th->region->stop, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* As a shell tells it. */
static int status_of(const struct throttling *th)
{
	if (!th->set.command)
		return CLI_OK;
	return WIFSIGNALED(th->status) ? 128 + WTERMSIG(th->status) : WEXITSTATUS(th->status);
}

int cmd_throttle(int argc, char **argv)
{
	struct throttling th = { .region_fd = -1 };
	struct sigaction sa = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
	int status = settings_read(&th.set, argc, argv);

	if (status)
		return status < 0 ? CLI_OK : status;
	status = make_region(&th);
	if (!status)
		status = begin(&th);
	if (!status) {
		sigaction(SIGINT, &sa, NULL);
		sigaction(SIGTERM, &sa, NULL);
		sigaction(SIGHUP, &sa, NULL);
		wait_for_end(&th);
		end_all(&th);
		status = say_all(&th) ? CLI_NO : status_of(&th);
	}
	agent_region_close(th.region, sizeof(*th.region), th.region_fd);
	return status;
}
