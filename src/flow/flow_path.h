/* SPDX-License-Identifier: MIT */
/* flow_path.h - calls and steps. */
#ifndef FLOW_FLOW_PATH_H
#define FLOW_FLOW_PATH_H

#include "flow/flow.h"

void flow_path_call(struct flow_thread *t, uint64_t back, uint64_t at);
/* Addresses, innermost first: pc, then the returns. */
void flow_path_stack(struct flow_thread *t, uint64_t pc, uint64_t sp, struct flow_stack *out);
/* The step by which a byte with this mark is stored at pc. */
uint32_t flow_path_step(struct flow_thread *t, flow_mark mark, uint64_t pc, uint64_t sp);

#endif
