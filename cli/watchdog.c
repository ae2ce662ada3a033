/* SPDX-License-Identifier: MIT */
/* watchdog.c - see watchdog.h. */
#include "cli/watchdog.h"

#include "base/clock.h"
#include "cli/message.h"
#include "report/safe/busy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define SECONDS_FIRST 5
#define SECONDS_AGAIN 1
#define SECONDS_AFTER_TIME 10
#define LOOK_NS 1000000000u
#define LATE_NS 100000000u

static char message[200];
volatile sig_atomic_t asked_by;
volatile sig_atomic_t asked_times;
volatile sig_atomic_t asked_interrupts;
static volatile sig_atomic_t is_from_terminal; /* the last one */
static char cut_off[120];
static const uint64_t *printed; /* NULL: not known */
static const char *printed_what;
static volatile sig_atomic_t is_ending;
static volatile sig_atomic_t seen_steps; /* at the last look */
/* Without a step; what other programs on the CPU took is not in it. Used by the handlers alone. */
static uint64_t idle_ns;
static uint64_t looked_ns;
static uint64_t waited_ns; /* for a CPU, at the last look */

static void look_after(uint64_t ns)
{
	const struct itimerval next = { .it_value = {
						.tv_sec = (time_t)(ns / 1000000000u),
						.tv_usec = (suseconds_t)(ns / 1000 % 1000000) } };

	setitimer(ITIMER_REAL, &next, NULL);
}

/* In a handler: no stdio. */
static void write_text(const char *text)
{
	size_t left = strlen(text);

	while (left) {
		ssize_t n = write(STDERR_FILENO, text, left);
		if (n <= 0)
			return;
		text += n;
		left -= (size_t)n;
	}
}

static void write_number(uint64_t value)
{
	char text[24];
	size_t at = sizeof(text) - 1;

	text[at] = '\0';
	do
		text[--at] = (char)('0' + value % 10);
	while (value /= 10);
	write_text(text + at);
}

/*
 * The command is inside libdw, so that it holds no lock of an output. Where a reader of that output
 * does not read, the next look ends it.
 */
static void end_now(void)
{
	if (!is_ending) {
		is_ending = 1;
		look_after(LOOK_NS);
		write_text(message);
		if (printed) {
			write_text(cut_off);
			write_number(*printed);
			write_text(printed_what);
		}
		fflush(NULL);
	}
	_exit(CLI_NO);
}

/* How long this thread has waited for a CPU: the second number. 0: the kernel does not show it. */
static uint64_t wait_for_cpu(void)
{
	char text[80] = "";
	uint64_t number = 0;
	int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	const char *c = n > 0 ? strchr(text, ' ') : NULL;
	while (c && *++c >= '0' && *c <= '9')
		number = 10 * number + (uint64_t)(*c - '0');
	return number;
}

/*
 * Since the last inspection, one period at most: the command may have been stopped in the meantime.
 */
static uint64_t time_given(void)
{
	const uint64_t now = clock_now_ns();
	const uint64_t waited = wait_for_cpu();
	const uint64_t passed = now - looked_ns < LOOK_NS ? now - looked_ns : LOOK_NS;
	const uint64_t others = waited - waited_ns < passed ? waited - waited_ns : passed;

	looked_ns = now;
	waited_ns = waited;
	return passed - others;
}

static void start_looks(void)
{
	time_given();
	seen_steps = busy_steps;
	idle_ns = 0;
	look_after(LOOK_NS);
}

static void on_look(int number)
{
	int saved = errno;
	uint64_t limit = asked_times > 1 ? SECONDS_AGAIN :
			 asked_times	 ? SECONDS_FIRST :
					   SECONDS_AFTER_TIME;
	bool has_moved = !busy_depth || busy_steps != seen_steps;
	uint64_t given = time_given();

	seen_steps = busy_steps;
	idle_ns = has_moved ? 0 : idle_ns + given;
	if (is_ending || idle_ns + LATE_NS >= limit * LOOK_NS)
		end_now();
	look_after(LOOK_NS);
	errno = saved;
}

static void on_asked(int number, siginfo_t *info, void *context)
{
	int saved = errno;

	is_from_terminal = info->si_code == SI_KERNEL;
	asked_by = number;
	asked_times = asked_times + 1;
	asked_interrupts = asked_interrupts + (number == SIGINT);
	start_looks();
	errno = saved;
}

void watchdog_start(const char *command, bool with_quit)
{
	/* A look inside end_now() ends it. */
	const struct sigaction look = { .sa_handler = on_look,
					.sa_flags = SA_RESTART | SA_NODEFER };
	const struct sigaction ask = { .sa_sigaction = on_asked, .sa_flags = SA_SIGINFO };

	snprintf(message, sizeof(message),
		 "trapline %s: cannot read the debug information of the "
		 "target: it keeps its reader busy; remove it, for example by strip -g\n",
		 command);
	snprintf(cut_off, sizeof(cut_off),
		 "trapline %s: the run was cut off, without a summary: ", command);
	sigaction(SIGALRM, &look, NULL);
	sigaction(SIGINT, &ask, NULL);
	sigaction(SIGTERM, &ask, NULL);
	sigaction(SIGHUP, &ask, NULL);
	if (with_quit)
		sigaction(SIGQUIT, &ask, NULL);
}

void watchdog_printed(const uint64_t *count, const char *what)
{
	printed_what = what;
	printed = count;
}

void watchdog_time(uint64_t ns)
{
	if (ns && !asked_times)
		look_after(ns);
}

int watchdog_forward(pid_t pid)
{
	int number = asked_by;

	if (number && !is_from_terminal)
		kill(pid, number);
	asked_by = 0;
	return number;
}
