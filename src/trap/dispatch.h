/* SPDX-License-Identifier: MIT */
/* dispatch.h - the one SIGTRAP handler, and how a callback is run. */
#ifndef TRAP_DISPATCH_H
#define TRAP_DISPATCH_H

#include "event/event.h"
#include <signal.h>
#include <stdint.h>
#include <ucontext.h>

/* The handler. */
void trap_on_sigtrap(int sig, siginfo_t *info, void *context);

/*
 * Set before trap_install(): run on the stack of the thread, not on its signal stack. For callbacks
 * that need more room than the 8 KiB that language runtimes give their signal stacks. They ask
 * for it. Signals of the program wait in the meantime.
 */
extern int trap_on_thread_stack;

/*
 * Set before trap_install(), by what came into a foreign process: signals of the program wait while
 * the handler runs, on any stack. A hit must not make its thread one that takes a signal which
 * the kernel meant for the first thread: see base/shared_signal.c.
 */
extern int trap_blocks_signals;

/*
 * From now on a signal that comes too late, and a trap's callback that does nothing, make no system
 * call: the program may be killed for it. For when no event of Trapline is armed any more. AS-Safe.
 */
void trap_make_no_calls(void);

/*
 * There, before a callback: from here on a hit of Trapline may come on top of it, to be counted.
 * AS-Safe.
 */
void trap_let_traps_come(const ucontext_t *context);

/*
 * At the end of a callback, all signals blocked but SIGTRAP: one that the first thread is to take
 * is left to it. On the thread's own stack SIGTRAP is blocked until the handler is left. AS-Safe.
 */
void trap_leave_shared(const ucontext_t *context);

/* There, in a callback: 1: a signal of the program waits for its end. AS-Safe. */
int trap_signal_waits(const ucontext_t *context);

/* Debug exceptions in this process whose cause was lost: see arch_has_lost_cause(). */
extern uint64_t trap_lost_causes;

/*
 * trap_tick: what a SIGTRAP sent by a BPF program is a hit of. NULL: of nothing, and it is dropped
 * if trap_had_ticks states that one may be on its way; else it is not Trapline's.
 */
extern struct trapline_event *trap_tick;
extern uint32_t trap_had_ticks;

/*
 * What such a signal is about, where that can be known; 0: a sample. Called in the thread, in
 * SIGTRAP.
 */
struct trap_sent {
	const struct trapline_event *event;
	uint32_t generation;
	uint32_t is_late; /* the thread is elsewhere by now */
	uint64_t address;
};
typedef int (*trap_finder)(const ucontext_t *context, struct trap_sent *out);
extern trap_finder trap_find_sent;

/*
 * Word by SIGTRAP from a descriptor (F_SETSIG), in some thread, not inside a callback.
 * trap_hangup_fd stays when on_hangup is taken back: signals may be on their way.
 */
extern int trap_hangup_fd; /* 0: none */
extern void (*trap_on_hangup)(void);

/*
 * The calling thread has reached a probe of the event, without a signal. context is as it will
 * continue, its pc the probe's address; its signal mask is not filled in. 1: the condition is true,
 * and trap_take_probe() has to follow. 0: that is all. Leaves the vector registers alone. AS-Safe.
 */
int trap_enter_probe(struct trapline_event *ev, uint32_t generation, ucontext_t *context);
/* Runs the callback. AS-Safe. */
void trap_take_probe(ucontext_t *context);

/* Where the calling thread's number is kept, from its thread pointer; 0 until its first hit. */
int32_t trap_tid_at(void);

/* The calling thread is the only one of a forked child. */
void trap_forked(void);

/* The calling thread leaves its callback without returning. */
void trap_leave(void);

#endif
