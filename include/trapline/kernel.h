/* SPDX-License-Identifier: MIT */
/*
 * kernel.h - system calls, signals and processes as events. <trapline/trapline.h> includes it.
 */
#ifndef TRAPLINE_KERNEL_H
#define TRAPLINE_KERNEL_H

#include <trapline/trapline.h>

#ifdef __cplusplus
extern "C" {
#endif

/* trapline_break_kernel() waits for one of these. */
enum trapline_kernel_event {
	/* numbers: system calls, such as SYS_openat. Empty: each of them. */
	TRAPLINE_AT_SYSCALL = 0,
	/* numbers: one descriptor. A system call creates, uses or closes it. */
	TRAPLINE_AT_DESCRIPTOR = 1,
	/* numbers: signals. Empty: each of them. One is sent to the target. */
	TRAPLINE_AT_SIGNAL = 2,
	/* numbers is empty for these. The target executes a program. */
	TRAPLINE_AT_EXEC = 3,
	/* The target makes a child process. */
	TRAPLINE_AT_FORK = 4,
	/* The last thread of the target ends. */
	TRAPLINE_AT_EXIT = 5,
	/* The kernel kills the target because memory is short. */
	TRAPLINE_AT_OOM = 6,
};

/* A flag of trapline_event_opts: what any process does is a hit, or what is done to it. */
#define TRAPLINE_EVERYWHERE 512u

/*
 * trapline_break_kernel - report each time the kernel does this for the target.
 *
 * A BPF program at a tracepoint of the kernel sees it, from outside, for programs of any kind. The
 * event has records only. hit.address is the number of the system call, the signal or the
 * descriptor, or 0, and hit.syscall that of the system call. ip, sp and the registers are those
 * with which the thread entered the kernel. At a system call the registers of C's convention have
 * the arguments, and so have arg0 to arg5 of a condition. Records have 2 KiB of the stack, or more
 * with TRAPLINE_STACK_BYTES.
 *
 * With TRAPLINE_RETURNS the end of a system call is another hit, with hit.returned. hit.old_value
 * is 1 at the end of a system call, and hit.new_value its result. A call that creates the
 * descriptor is seen at its end only. The thread of a signal's hit is the one that sends it;
 * hit.old_value is si_code, and hit.new_value the process that it is sent to. Else hit.new_value is
 * the child, the victim, or the status of the end.
 *
 * System calls by the 32-bit interface are not hits; see trapline_stats.compat.
 *
 * Errors: EINVAL a callback, a scope other than the process, a condition with `caller`, or a
 * number; EOPNOTSUPP BPF is not available, this kernel has no description of itself, or signals are
 * wanted in a container; EPERM the process lacks CAP_SYS_ADMIN. Others as trapline_watch().
 * MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_break_kernel(struct trapline *t, enum trapline_kernel_event what,
				       const uint32_t *numbers, size_t count,
				       const struct trapline_event_opts *opts,
				       struct trapline_event **out);

#ifdef __cplusplus
}
#endif

#endif
