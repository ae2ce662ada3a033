/* SPDX-License-Identifier: MIT */
/* flow_window.h - windows begin and end. */
#ifndef FLOW_FLOW_WINDOW_H
#define FLOW_FLOW_WINDOW_H

#include "flow/flow_state.h"

/* The thread's own, made at the first call; NULL: no memory. */
struct flow_thread *flow_thread_take(void);
/* The pages of the program that threads have copied become zeros. */
void flow_threads_wipe(void);
void flow_threads_give(void);
/* 1: a window begins when the handler returns; the calls that the thread is in are known. */
int flow_window_begin(struct flow_thread *t, ucontext_t *context);
/*
 * In a handler, perhaps on a small stack of the program: on the one of the thread's window, which
 * is free while none runs.
 */
void flow_on_own_stack(const struct window_area *area, void (*call)(void *), void *arg);

#endif
