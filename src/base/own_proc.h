/* SPDX-License-Identifier: MIT */
/*
 * own_proc.h - are the numbers in /proc those of this process's PID namespace?
 *
 * They are not after `unshare --pid --fork` without --mount-proc: there /proc/PID is another
 * process than kill(PID) reaches.
 */
#ifndef BASE_OWN_PROC_H
#define BASE_OWN_PROC_H

#include <fcntl.h>

#include "base/sys.h"

#define OWN_PROC_REMEDY "/proc is missing or belongs to another PID namespace; mount proc at /proc"

/* 0: they are not, or there is no /proc. */
static inline int own_proc_is_mounted(void)
{
	char text[16];
	long n = sys4(SYS_readlinkat, AT_FDCWD, "/proc/self", text, sizeof(text));
	pid_t number = 0;

	for (long i = 0; i < n; i++)
		number = number * 10 + (text[i] - '0');
	return n > 0 && number == sys_getpid();
}

#endif
