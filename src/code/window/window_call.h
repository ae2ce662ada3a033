/* SPDX-License-Identifier: MIT */
/* window_call.h - system calls in a window: see window_call.c. */
#ifndef CODE_WINDOW_CALL_H
#define CODE_WINDOW_CALL_H

#include "code/window/window.h"

/*
 * WINDOW_RUNS: the system call of the registers is to run in place; else why the window ends before
 * it.
 */
enum window_reason window_call_before(struct window_area *area);
/* 1: it was done for the thread, with *result. */
int window_call_instead(struct window_area *area, long *result);
/* It may block, and all that the kernel does to the thread is to be as natively. */
int window_call_steps(const struct window_area *area);
/* After it, in each case. */
void window_call_after(struct window_area *area);

/* Bit of a call's site: see can_step() in window_form.c. The lower ones: instructions before it. */
#define WINDOW_CAN_STEP 0x10000u

static inline void window_vectors_save(struct window_area *a)
{
	__asm__ volatile("xsave64 (%0)" : : "r"(a->xsave), "a"(-1), "d"(-1) : "memory");
}

static inline void window_vectors_restore(struct window_area *a)
{
	__asm__ volatile("xrstor64 (%0)" : : "r"(a->xsave), "a"(-1), "d"(-1) : "memory");
}

/* window_run.c */
int window_signal_waits(const struct window_area *area);
/* Closes the account of a window: pc is where the thread continues. */
void window_finish(struct window_area *area, uint64_t pc, enum window_reason reason);

#endif
