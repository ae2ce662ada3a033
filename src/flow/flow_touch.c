/* SPDX-License-Identifier: MIT */
/*
 * flow_touch.c - a watch reports an access when it is done. What the instruction has loaded or
 * copied is marked now, before the window continues behind it.
 */
#include <trapline/trapline.h>

#include "core/hit_insn.h"
#include "flow/flow_marks.h"
#include "flow/flow_state.h"
#include "flow/flow_step.h"

/* From the begin of the marked row up to where the instruction is. */
static void touch_string(struct flow_thread *t, const struct trapline_hit *hit, uint64_t pc)
{
	const uint64_t *r = t->area->regs.r;
	const uint64_t from = r[INSN_RSI];
	const flow_mark *marks = flow_marks_page(hit->address >> 12);
	uint32_t start = hit->address & 4095;
	uint64_t page = hit->address & ~4095ull;

	if (!marks || t->area->regs.flags >> 10 & 1 || from <= hit->address)
		return;
	while (start && marks[start - 1])
		start--;
	const uint64_t begin = page + start;
	const uint64_t end = from < page + 4096 ? from : page + 4096;
	flow_copy_past(t, pc, r[INSN_RDI] - (from - begin), begin, end - begin);
}

void flow_touch(struct flow_thread *t, const struct trapline_hit *hit,
		const struct insn_regs *after)
{
	struct flow_form *f = &t->forms[0];
	struct insn_back back;
	struct hit_code code;
	struct insn insn;

	hit_insn_find(hit, after, &code, &back);
	const struct insn_back_candidate *c = &back.candidates[0];
	if (back.found != INSN_BACK_LIKELY)
		return;
	const uint8_t *bytes = code.bytes + (c->address - code.start);
	if (insn_decode(bytes, code.count - (size_t)(c->address - code.start), &insn) ||
	    flow_form_make(f, c->address, &insn, bytes))
		return;
	if (f->flow.op == INSN_FLOW_COPY)
		touch_string(t, hit, c->address);
	else if (f->flow.op < INSN_FLOW_COPY)
		flow_step_past(t, f, c->address, c->operand, c->touched, c->size);
}
