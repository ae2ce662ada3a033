/* SPDX-License-Identifier: MIT */
/*
 * guard_seccomp.c - a program that is about to install a seccomp filter is not sampled any more.
 *
 * The filter may kill the program for a system call of the detector. Both ways through libc are
 * interposed; a direct system call is not seen.
 */
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/guard/guard.h"
#include "agent/guard/guard_next.h"
#include "guest/signals.h"

GUARD(int, prctl, (int option, ...))
{
	unsigned long a[4];
	va_list args;

	NEXT(prctl);
	va_start(args, option);
	for (int i = 0; i < 4; i++)
		a[i] = va_arg(args, unsigned long);
	va_end(args);
	if (option == PR_SET_SECCOMP)
		heap_stop();
	return next_prctl(option, a[0], a[1], a[2], a[3]);
}

GUARD(long, syscall, (long number, ...))
{
	long result;
	long a[6];
	va_list args;

	NEXT(syscall);
	va_start(args, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (number == SYS_seccomp || (number == SYS_prctl && a[0] == PR_SET_SECCOMP))
		heap_stop();
	if (signals_raw((raw_call)next_syscall, number, a, &result))
		return result;
	return next_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
