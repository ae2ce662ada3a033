/* SPDX-License-Identifier: MIT */
/*
 * seccomp.c - a program that is about to forbid itself system calls is let go.
 *
 * A search and a budget make calls that no filter of the program's allows: it would be killed for
 * ours. Both ways through libc are looked at; one that goes around libc is not seen.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/throttle.h"
#include "tools/race.h"

#define EXPORTED __attribute__((visibility("default")))

static void let_go(void)
{
	race_stop(RACE_STEP_SECCOMP);
	agent_throttle_let_go("a seccomp filter forbids the system calls that it needs");
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
		let_go();
	if (!next)
		next = (int (*)(int, ...))dlsym(RTLD_NEXT, "prctl");
	return next(option, a[0], a[1], a[2], a[3]);
}

EXPORTED long syscall(long number, ...)
{
	static long (*next)(long, ...);
	long a[6];
	va_list args;

	va_start(args, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (number == SYS_seccomp ||
	    (number == SYS_prctl && a[0] == PR_SET_SECCOMP))
		let_go();
	if (!next)
		next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
