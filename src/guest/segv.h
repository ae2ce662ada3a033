/* SPDX-License-Identifier: MIT */
/*
 * segv.h - SIGSEGV is a tool's in a process that is not Trapline's, and the program meets its own
 * as before.
 *
 * The program's action is kept here. Its faults go to its handler, with the mask that it would
 * have. A fault that it has blocked, or has no handler for, is deadly: it happens again with the
 * default action, so that status and core file are as without us. A signal that was sent and is
 * blocked stays pending, see signals.c.
 */
#ifndef GUEST_SEGV_H
#define GUEST_SEGV_H

#include <signal.h>
#include <stdbool.h>
#include <ucontext.h>

struct segv_tool {
	/*
	 * A fault; true: it was the tool's, and the thread continues. In the handler, on the
	 * thread's stack.
	 */
	bool (*take)(const siginfo_t *info, ucontext_t *context);
	/* The program dies of this one. */
	void (*dies)(const siginfo_t *info, const ucontext_t *context);
	/* No access faults any more because of the tool. */
	int (*end)(void);
};

/* 0 or -errno. Not in a handler. */
int segv_start(const struct segv_tool *tool);
/*
 * Once more: after segv_leave(), or where a thread was in sigaction(2) when it was taken. 0 or
 * -errno.
 */
int segv_take_again(void);
/* The program has its action again. A handler that came past us stays. */
void segv_leave(void);
void segv_forked(void);

/* What sigaction(2) gave as the old one: the program's instead of Trapline. */
void segv_from_kernel(int signal, struct sigaction *old);

#endif
