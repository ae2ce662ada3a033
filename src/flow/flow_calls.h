/* SPDX-License-Identifier: MIT */
/* flow_calls.h - calls and steps. */
#ifndef FLOW_FLOW_CALLS_H
#define FLOW_FLOW_CALLS_H

#include "flow/flow_state.h"

void flow_calls_enter(struct flow_thread *t, uint64_t back, uint64_t at);
/* Addresses, innermost first: pc, then the returns. */
void flow_calls_stack(struct flow_thread *t, uint64_t pc, uint64_t sp, struct flow_stack *out);
/* The step by which a byte with this mark is stored at pc. */
uint32_t flow_calls_step(struct flow_thread *t, flow_mark mark, uint64_t pc, uint64_t sp);

#endif
