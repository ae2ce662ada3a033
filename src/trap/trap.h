/* SPDX-License-Identifier: MIT */
/* trap.h - the one SIGTRAP handler: who it belongs to and how a callback is run. */
#ifndef TRAP_TRAP_H
#define TRAP_TRAP_H

#include <signal.h>
#include <stdint.h>
#include <ucontext.h>

#include "event/event.h"
#include "trap/action.h"

/* dispatch.c: the handler. */
void trap_on_sigtrap(int sig, siginfo_t *info, void *context);

/* foreign.c: the actions for what is not ours. */
extern struct action trap_previous;
extern struct action trap_first_previous;

/* install.c: make SIGTRAP ours, keeping the action that was there for what is not ours. 0 or -errno. */
int trap_install(void);

/*
 * For a process in which SIGTRAP is kept unblocked. trap_is_held: 1: the program has it blocked in the
 * interrupted thread. trap_held_bit: signal that is blocked in place of SIGTRAP in a handler of the
 * program; 0: none. trap_let_go: all events end, because the program takes a signal by itself; 0, or
 * -errno when they could not. Called in SIGTRAP, not inside a callback.
 */
extern int (*trap_is_held)(const ucontext_t *context);
extern uint64_t trap_held_bit;
extern int (*trap_let_go)(void);

/*
 * What the program asked sigaction() for, where that is not let through: it gets what is not ours,
 * and reads back what it set. For the agent, which stands before libc's sigaction().
 */
void trap_set_previous(const struct sigaction *action, struct sigaction *old);

/*
 * Set before trap_install(): run on the stack of the thread, not on its signal stack. For callbacks
 * that need more room than the 8 KiB that language runtimes give their signal stacks. They ask
 * for it. Signals of the program wait meanwhile.
 */
extern int trap_on_thread_stack;

/*
 * From now on a signal that comes too late, and a trap's callback that does nothing, make no system
 * call: the program may be killed for it. For when no event of ours is armed any more. AS-Safe.
 */
void trap_make_no_calls(void);

/* There, before a callback: from here on a hit of ours may come on top of it, to be counted. AS-Safe. */
void trap_let_traps_come(const ucontext_t *context);

/* There, in a callback: 1: a signal of the program waits for its end. AS-Safe. */
int trap_signal_waits(const ucontext_t *context);

/* room.c: are there so many bytes below the caller, and what one more signal needs? AS-Safe. */
int trap_has_room(uint64_t bytes);
/* Before that: the thread may stand on its alternate stack. AS-Safe. */
void trap_note_stack(const ucontext_t *context);
extern struct trap_room {
	pid_t pid; /* as of trap_install() */
	uint64_t signal_bytes;
	/* The first thread's stack, as far down as it may grow. */
	uint64_t first_low;
	uint64_t first_high;
} trap_room;

/* 1 while our handler is the process's action for SIGTRAP. */
int trap_is_installed(void);

/*
 * trap_tick: what a SIGTRAP sent by a BPF program is a hit of. NULL: of nothing, and it is dropped if
 * trap_had_ticks says that one may be on its way; else it is not ours.
 */
extern struct trapline_event *trap_tick;
extern uint32_t trap_had_ticks;

/* What such a signal is about, where that can be known; 0: a tick. Called in the thread, in SIGTRAP. */
struct trap_sent {
	const struct trapline_event *event;
	uint32_t generation;
	uint32_t is_late; /* the thread stands elsewhere by now */
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
 * The calling thread has come to a probe of the event, without a signal. context is as it will go on,
 * its pc the probe's address; its signal mask is not filled in. 1: the condition holds, and
 * trap_take_probe() has to follow. 0: that is all. Leaves the vector registers alone. AS-Safe.
 */
int trap_enter_probe(struct trapline_event *ev, uint32_t generation, ucontext_t *context);
/* Runs the callback. AS-Safe. */
void trap_take_probe(ucontext_t *context);

/* Where the calling thread's number is kept, from its thread pointer; 0 until its first hit. */
int32_t trap_tid_at(void);

/* probe_entry_x86_64.c: where a probe's code jumps to; and what that needs to know first. */
void trap_probe_entry(void);
void trap_probe_prepare(void);

/* The calling thread is the only one of a forked child. */
void trap_forked(void);

/* The calling thread leaves its callback without returning. */
void trap_leave(void);

/* stack.c: return addresses from a ucontext, innermost first. */
uint32_t stack_unwind(uint64_t ip, uint64_t *frames, uint32_t n);
void stack_warm_up(void);

#endif
