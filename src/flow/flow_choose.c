/* SPDX-License-Identifier: MIT */
/* flow_choose.c - an instruction becomes the form that flow_step.c knows. Uses vector registers. */
#include <errno.h>
#include <string.h>

#include "flow/flow_state.h"
#include "flow/flow_step.h"

static uint64_t bit_of(const struct insn_flow_part *part)
{
	if (part->file == INSN_FLOW_GENERAL)
		return 1ull << part->reg;
	return part->file == INSN_FLOW_VECTOR ? 1ull << (16 + part->reg) : 0;
}

static void set_registers(struct flow_form *f)
{
	for (unsigned int i = 0; i < f->flow.from_count; i++) {
		f->reads |= bit_of(&f->flow.from[i]);
		f->reads_memory |= f->flow.from[i].file == INSN_FLOW_MEMORY;
	}
	for (unsigned int i = 0; i < f->flow.to_count; i++)
		f->writes |= bit_of(&f->flow.to[i]);
	if (f->flow.op == INSN_FLOW_CLEAR) {
		f->flow.from_count = 0;
		f->reads = 0;
		f->reads_memory = 0;
	}
}

static void set_memory(struct flow_form *f, const struct insn *insn)
{
	for (unsigned int i = 0; i < insn->memory_count && i < 2; i++) {
		const struct insn_memory *m = &insn->memory[i];

		window_operand_fill(&f->memory[i], insn, m);
		if (!(m->access & INSN_READ) || !f->reads_memory)
			continue;
		/* The stack pointer and the pc are not an index. */
		if (m->base < INSN_RIP && m->base != INSN_RSP)
			f->indexes |= 1ull << m->base;
		if (m->scale && m->index < INSN_RIP)
			f->indexes |= 1ull << m->index;
	}
}

static void set_special(struct flow_form *f, const struct insn *insn, uint64_t pc)
{
	if (insn->kind == INSN_CALL || insn->kind == INSN_CALL_INDIRECT)
		f->special |= FLOW_IS_CALL;
	if (insn->kind == INSN_SYSCALL)
		f->special |= FLOW_IS_SYSCALL;
	if (insn->flags & INSN_REPEATS)
		f->special |= FLOW_REPEATS;
	const struct flow_site *site = flow_site_at(pc);

	if (site)
		f->special |= FLOW_IS_SITE;
	if (site && (site->kind == FLOW_SITE_END || site->kind == FLOW_SITE_MAPPED))
		f->special |= FLOW_IS_END;
}

int flow_form_make(struct flow_form *f, uint64_t pc, const struct insn *insn, const uint8_t *bytes)
{
	memset(f, 0, sizeof(*f));
	if (insn_flow_x86_64(bytes, insn->length, &f->flow))
		return -EILSEQ;
	f->length = insn->length;
	f->operand_bytes = insn->operand_bytes;
	set_special(f, insn, pc);
	set_registers(f);
	set_memory(f, insn);
	return 0;
}

uint32_t flow_choose(struct window_area *area, uint64_t pc, const struct insn *insn,
		     const uint8_t *bytes)
{
	struct flow_thread *t = area->request.arg;

	if (t->form_epoch != area->epoch) {
		t->form_epoch = area->epoch;
		t->forms_used = 1;
	}
	struct flow_form *f = &t->forms[t->forms_used];
	if (flow_form_make(f, pc, insn, bytes))
		return 0;
	if (f->flow.op == INSN_FLOW_NONE && !f->special)
		return 0;
	return t->forms_used++;
}
