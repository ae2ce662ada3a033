// SPDX-License-Identifier: MIT
/* watchdog.c - see watchdog.h. */
#include "cli/watchdog.h"

#include "cli/cmd.h"
#include "report/safe/busy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define SECONDS_FIRST 5
#define SECONDS_AGAIN 1
#define SECONDS_AFTER_TIME 10

static char message[200];
static volatile sig_atomic_t asked; /* signals */
static volatile sig_atomic_t is_ending;
static volatile sig_atomic_t seen_steps; /* at the last look */
static volatile sig_atomic_t idle_looks; /* in a row, without a step */

static void look_after(uint64_t ns)
{
	const struct itimerval next = { .it_value = {
						.tv_sec = (time_t)(ns / 1000000000u),
						.tv_usec = (suseconds_t)(ns / 1000 % 1000000) } };

	setitimer(ITIMER_REAL, &next, NULL);
}

/*
 * The command is inside libdw, so that it holds no lock of an output. Where a reader of that output
 * does not read, the next look ends it.
 */
static void end_now(void)
{
	if (!is_ending) {
		is_ending = 1;
		look_after(1000000000u);
		if (write(STDERR_FILENO, message, strlen(message)) >= 0)
			fflush(NULL);
	}
	_exit(CLI_NO);
}

static void on_look(int number)
{
	int saved = errno;
	int limit = asked > 1 ? SECONDS_AGAIN : asked ? SECONDS_FIRST : SECONDS_AFTER_TIME;
	bool has_moved = !busy_depth || busy_steps != seen_steps;

	seen_steps = busy_steps;
	idle_looks = has_moved ? 0 : idle_looks + 1;
	if (is_ending || idle_looks >= limit)
		end_now();
	look_after(1000000000u);
	errno = saved;
}

void watchdog_start(const char *command)
{
	/* A look inside end_now() ends it. */
	struct sigaction sa = { .sa_handler = on_look, .sa_flags = SA_RESTART | SA_NODEFER };

	snprintf(message, sizeof(message),
		 "trapline %s: cannot read the debug information of the "
		 "target: it keeps its reader busy; remove it, for example by strip -g\n",
		 command);
	sigaction(SIGALRM, &sa, NULL);
}

void watchdog_asked(void)
{
	int saved = errno;

	if (asked < 2)
		asked = asked + 1;
	seen_steps = busy_steps;
	idle_looks = 0;
	look_after(1000000000u);
	errno = saved;
}

void watchdog_time(uint64_t ns)
{
	if (ns && !asked)
		look_after(ns);
}
