/* SPDX-License-Identifier: MIT */
/*
 * foreign.h - a SIGTRAP that is not of an event: the program gets it as the kernel would deliver
 * it.
 */
#ifndef TRAP_FOREIGN_H
#define TRAP_FOREIGN_H

#include "base/action.h"
#include <signal.h>
#include <stdint.h>
#include <ucontext.h>

/* A handler of the program, and what the kernel would have given it. */
struct foreign_call {
	uint64_t handler;
	uint64_t sp; /* of its first instruction */
	uint64_t bp; /* of the interrupted code */
	siginfo_t *info;
	ucontext_t *context;
};

/*
 * frame: of trap_on_sigtrap(). is_inside: a callback of Trapline is below it. 1: *call is to be
 * entered with foreign_enter(), from that frame; 0: done. AS-Safe.
 */
int foreign_take(siginfo_t *info, ucontext_t *context, const void *frame, int is_inside,
		 struct foreign_call *call);

/* 1: one came while a callback ran, and waits for its end. AS-Safe. */
int foreign_has_kept(void);

/*
 * The callback had no signal, so no handler of Trapline ends now: one that was kept is sent again.
 * AS-Safe.
 */
void foreign_send_kept(void);

/* One that was kept while a callback ran, if there is one. As above. */
int foreign_take_kept(ucontext_t *context, const void *frame, struct foreign_call *call);

/*
 * The calling thread is Trapline's, and has SIGTRAP open for breakpoints on its way. What is sent
 * in the meantime is for the program: it is kept, and sent again when that is over. Then the thread
 * has the signal blocked.
 */
void foreign_keep_sent(int on);
int foreign_keeps_sent(void);

#if defined(__x86_64__)

/*
 * Nothing of Trapline is left on the stack: the handler returns to the kernel, or leaves by a jump.
 */
static inline __attribute__((always_inline, noreturn)) void
foreign_enter(const struct foreign_call *call)
{
	register uint64_t sp __asm__("r10") = call->sp;
	register uint64_t handler __asm__("r11") = call->handler;

	__asm__ volatile("movq %[sp], %%rsp\n\t"
			 "movq %[bp], %%rbp\n\t"
			 "cld\n\t"
			 "jmp *%[handler]"
			 :
			 : [sp] "r"(sp), [bp] "c"(call->bp), [handler] "r"(handler), "D"(SIGTRAP),
			   "S"(call->info), "d"(call->context), "a"(0)
			 : "memory");
	__builtin_unreachable();
}

#else

static inline void foreign_enter(const struct foreign_call *call)
{
}

#endif

/* The actions for what is not Trapline's. */
extern struct action trap_previous;
extern struct action trap_first_previous;

/*
 * For a process in which SIGTRAP is kept unblocked. trap_is_held: 1: the program has it blocked in
 * the interrupted thread. trap_held_bit: signal that is blocked in place of SIGTRAP in a handler of
 * the program; 0: none. trap_let_go: all events end, because the program takes a signal by itself:
 * 0; 1: they end soon, and the signal is sent again then; or -errno when they could not. Called in
 * SIGTRAP, not inside a callback.
 */
extern int (*trap_is_held)(const ucontext_t *context);
extern uint64_t trap_held_bit;
extern int (*trap_let_go)(const siginfo_t *info);

#endif
