/* SPDX-License-Identifier: MIT */
/* signals.h - see signals.c. */
#ifndef GUEST_SIGNALS_H
#define GUEST_SIGNALS_H

#include <signal.h>

#include <ucontext.h>

#include "guest/kernel_action.h"

/*
 * Before the search or the budget starts. end_all: ends it in SIGTRAP, for good: 0 or -errno.
 * Called when a signal has come that the program takes by itself. -EINPROGRESS: it ends soon, see
 * signals_tool_has_ended().
 */
void signals_prepare(int (*end_all)(void));
/*
 * In a process that runs already: threads that the program has it blocked in have the marker
 * blocked in place of SIGTRAP (base/marker.h). The command has made so, and these functions do.
 */
void signals_take_marked(int (*end_all)(void));
/*
 * end_all has stated -EINPROGRESS, and nothing raises SIGTRAP any more: what was sent in the
 * meantime is sent again. In a thread of Trapline.
 */
void signals_tool_has_ended(void);
/* 1: end_all was called: SIGTRAP is blocked as the program asks. */
int signals_have_let_go(void);

#define SIGNALS_KEPT 2u

/* The action of a signal that is kept beside SIGTRAP. */
struct signals_owner {
	/* As end_all above. */
	int (*end)(void);
	/* What the program asks of sigaction(2); both may be NULL. */
	void (*set_action)(const struct sigaction *, struct sigaction *);
};

/* From now on it is kept from the program, in its masks too; or not any more. */
void signals_own(int signal, const struct signals_owner *owner);
void signals_disown(int signal);
/* Nothing of Trapline raises it any more: it is blocked as the program asks. AS-Safe. */
void signals_let_go(int signal);
/* 1: the program has it blocked in the interrupted thread, where it is open. AS-Safe. */
int signals_is_blocked(int signal, const ucontext_t *context);
/* One that was sent and is blocked: as the kernel, which has it from now on. In the handler. */
void signals_leave_pending(const siginfo_t *info, ucontext_t *context);

/*
 * Before a call that may not return: actions and mask become those that the program believes, as
 * the new program inherits them. After it, if it returns, they are Trapline's again. AS-Safe.
 */
struct signals_exec {
	uint64_t mask;
	int is_mask_changed;
	int is_changed[SIGNALS_KEPT];
	struct kernel_action actions[SIGNALS_KEPT];
};
void signals_before_exec(struct signals_exec *before);
void signals_after_exec(const struct signals_exec *before);
/*
 * Before libc starts a program in a child of its own making. The threads of this one continue:
 * where the program ignores a signal that is kept, nothing of Trapline raises it any more.
 */
void signals_before_spawn(struct signals_exec *before);

/* What sigaction() and pthread_sigmask() are to do; next is that of libc. */
typedef int (*signals_set_action)(int, const struct sigaction *, struct sigaction *);
typedef int (*signals_set_mask)(int, const sigset_t *, sigset_t *);
int signals_action(signals_set_action next, int signal, const struct sigaction *action,
		   struct sigaction *old);
int signals_mask(signals_set_mask next, int how, const sigset_t *set, sigset_t *old);

/* The same of sigpending(). */
int signals_pending(int (*next)(sigset_t *), sigset_t *set);

/*
 * A system call with SIGTRAP in it, without the functions of libc. 1: *result is that of the
 * changed call; 0: make it as it is.
 */
typedef long (*raw_call)(long, ...);
int signals_raw(raw_call next, long number, const long *arguments, long *result);
/*
 * From now on SIGTRAP is kept from the program, or not. Off while the agent installs its handler.
 * Returns what was there before.
 */
int signals_are_ours(int are);
/* 1: it is kept, since a tool here has events or breakpoints that raise it. */
int signals_have_trap(void);
/*
 * The process ran before. keeps_open: as in one that was started. Else a signal is blocked as the
 * program asks, and the program reads a marker that is in a mask of before as the signal of that
 * marker.
 */
void signals_are_late(int keeps_open);
/*
 * There, before the command opens a signal in any thread: the masks that have a marker now are the
 * program's.
 */
void signals_note_own_masks(void);
/* Undoes signals_prepare() in this thread: nothing of Trapline handles SIGTRAP. */
void signals_give_back(void);

/*
 * Functions of libc can have an int3. SIGTRAP stays open, and handled, where libc starts a program
 * in a child of its own making, which does not inherit it blocked or ignored then.
 */
void signals_libc_is_changed(void);

/* Whether handlers with SA_ONSTACK keep SIGTRAP out. Not in a sweep. */
void signals_spare_stacks(int spare);

/* A mask as the kernel gets it while SIGTRAP is kept: *changed, or set itself. */
const sigset_t *signals_to_kernel(const sigset_t *set, sigset_t *changed);

#endif
