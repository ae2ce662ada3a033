/* SPDX-License-Identifier: MIT */
/*
 * seccomp.c - the search ends in a program that is about to install a seccomp filter.
 *
 * A search and a budget make system calls that the filter of the program may not allow:
 * the program would be killed for them. Both ways through libc are interposed; a direct
 * system call is not seen. The second one also leads to signals that are kept (signals.c).
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/agent_tools.h"
#include "guest/signals.h"
#include "race/race.h"

#define EXPORTED __attribute__((visibility("default")))

static void seccomp_let_go(void)
{
	run_make_no_calls();
	race_stop(RACE_STEP_SECCOMP);
	agent_throttle_let_go("a seccomp filter forbids system calls of the agent");
}

EXPORTED int prctl(int option, ...)
{
	static int (*next)(int, ...);
	unsigned long a[4];
	va_list args;

	va_start(args, option);
	for (int i = 0; i < 4; i++)
		a[i] = va_arg(args, unsigned long);
	va_end(args);
	if (option == PR_SET_SECCOMP)
		seccomp_let_go();
	if (!next)
		next = (int (*)(int, ...))dlsym(RTLD_NEXT, "prctl");
	return next(option, a[0], a[1], a[2], a[3]);
}

EXPORTED long syscall(long number, ...)
{
	static long (*next)(long, ...);
	long result;
	long a[6];
	va_list args;

	va_start(args, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (number == SYS_seccomp || (number == SYS_prctl && a[0] == PR_SET_SECCOMP))
		seccomp_let_go();
	if (!next)
		next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	if (signals_raw(next, number, a, &result))
		return result;
	return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
