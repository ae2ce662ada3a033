/* SPDX-License-Identifier: MIT */
/* flow_step.h - what instructions do to marks. */
#ifndef FLOW_FLOW_STEP_H
#define FLOW_FLOW_STEP_H

#include "flow/flow_state.h"

/* ---- flow_choose.c ---- */

uint32_t flow_choose(struct window_area *area, uint64_t pc, const struct insn *insn,
		     const uint8_t *bytes);

/* The step of one instruction; 0 or -EILSEQ. */
int flow_form_make(struct flow_form *f, uint64_t pc, const struct insn *insn, const uint8_t *bytes);

/* So many instructions without a mark end a window. */
extern uint32_t flow_idle_most;
/* What is done already, by the form, with this operand at this address. */
void flow_step_past(struct flow_thread *t, const struct flow_form *f, uint64_t pc,
		    unsigned int operand, uint64_t address, uint32_t bytes);
/* n bytes that a string instruction has copied. */
void flow_copy_past(struct flow_thread *t, uint64_t pc, uint64_t to, uint64_t from, uint64_t n);

int flow_step(struct window_area *area, uint64_t pc, uint32_t number);
void flow_regs_forget(struct flow_thread *t);

/* ---- flow_touch.c ---- */

struct trapline_hit;
/*
 * The instruction that a watch reports is done: its marks are set as if it had been in the window.
 */
void flow_touch(struct flow_thread *t, const struct trapline_hit *hit,
		const struct insn_regs *after);

#endif
