/* SPDX-License-Identifier: MIT */
/* flow_calls.h - calls and steps. */
#ifndef FLOW_FLOW_CALLS_H
#define FLOW_FLOW_CALLS_H

#include "flow/flow_state.h"

void flow_calls_enter(struct flow_thread *t, uint64_t back, uint64_t at);
/* Addresses, innermost first: pc, then the returns. */
void flow_calls_stack(struct flow_thread *t, uint64_t pc, uint64_t sp, struct flow_stack *out);
/* That the instruction at pc computes something. */
void flow_calls_made(struct flow_thread *t, uint64_t pc, uint64_t sp, struct flow_made *out);
/* The step by which a byte with this mark was computed: its own, where it was loaded so. */
uint32_t flow_calls_computed(struct flow_thread *t, flow_mark mark, const struct flow_made *made);
/*
 * The step by which a byte with this mark is stored at pc. What was computed by another function is
 * only moved by this one.
 */
uint32_t flow_calls_step(struct flow_thread *t, flow_mark mark, uint64_t pc, uint64_t sp,
			 const struct flow_made *made);
/* What saves registers for the loader, and restores them: it makes no step. 0: none is known. */
void flow_calls_start(uint64_t resolver);

#endif
