/* SPDX-License-Identifier: MIT */
/* flow_begin.h - windows begin and end, within a budget. */
#ifndef FLOW_FLOW_BEGIN_H
#define FLOW_FLOW_BEGIN_H

#include "flow/flow.h"

/* The thread's own, made if there is none; NULL: no memory. */
struct flow_thread *flow_thread_take(void);
/* The pages of the program that threads have copied become zeros. */
void flow_threads_wipe(void);
void flow_threads_give(void);
/* 1: a window begins when the handler returns; the calls that the thread is in are known. */
int flow_begin(struct flow_thread *t, ucontext_t *context);
/*
 * In a handler, perhaps on a small stack of the program: on the one of the thread's window, which is free while
 * none runs.
 */
void flow_on_own_stack(const struct window_area *area, void (*call)(void *), void *arg);
/* What windows and traps took, by its counter. */
void flow_spend(enum flow_counter counter, uint64_t ns);
/* In a forked child, which has no thread of Trapline, the trap itself inspects the budget. */
void flow_budget_trap(void);
/* The budget of a child is its own. Once in a process. */
void flow_budget_start(void);
/* Now and then, by a thread of Trapline; passed_ns: since the last time. */
void flow_budget_tick(uint64_t passed_ns);
/* 1: all that was to be found is there, or the command has ended it. */
int flow_is_over(void);
/* Set before the region is unmapped, and before the last wait for threads that are in this code. */
extern uint32_t flow_has_ended;

#endif
