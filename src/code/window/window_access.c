/* SPDX-License-Identifier: MIT */
/*
 * window_access.c - hooks that call a callback for blocks and accesses.
 *
 * The address of an operand is computed from the registers before the instruction. What it is made
 * of was kept at translation: nothing is decoded when it runs. Compiled without vector registers.
 */
#include "base/general_regs.h"

#include "code/window/window.h"

#define UNKNOWN (INSN_MEM_LANES | INSN_MEM_NOT_COMPUTABLE | INSN_MEM_SIZE_UNKNOWN)

void window_operand_fill(struct window_operand *o, const struct insn *insn,
			 const struct insn_memory *m)
{
	o->displacement = m->displacement;
	o->size = m->size;
	o->flags = m->flags;
	o->base = m->base;
	o->index = m->index;
	o->scale = m->scale;
	o->segment = m->segment;
	o->access = m->access;
	o->is_last = 0;
	if (insn->address_bytes != 8 || m->flags & INSN_MEM_BIT_INDEX ||
	    (m->scale && m->index_bits != 64) || m->segment == INSN_SEGMENT_GS)
		o->flags |= INSN_MEM_NOT_COMPUTABLE;
}

uint32_t window_access_choose(struct window_area *a, uint64_t pc, const struct insn *insn,
			      const uint8_t *bytes)
{
	const uint32_t first = a->operands_used;

	if (insn->flags & INSN_HINT)
		return 0;
	for (unsigned int i = 0; i < insn->memory_count; i++) {
		const struct insn_memory *m = &insn->memory[i];

		if (!m->access)
			continue;
		window_operand_fill(&a->operands[a->operands_used++], insn, m);
	}
	if (a->operands_used == first)
		return 0;
	a->operands[a->operands_used - 1].is_last = 1;
	return first;
}

uint64_t window_operand_address(const struct window_area *a, const struct window_operand *o,
				uint32_t *bytes)
{
	uint64_t address = (uint64_t)o->displacement;

	*bytes = 0;
	if (o->flags & UNKNOWN)
		return 0;
	*bytes = o->size;
	if (o->base != INSN_NO_REG)
		address += a->regs.r[o->base];
	if (o->scale)
		address += a->regs.r[o->index] * o->scale;
	if (o->segment == INSN_SEGMENT_FS)
		address += a->regs.fs_base;
	return address;
}

int window_access_before(struct window_area *a, uint64_t pc, uint32_t number)
{
	const struct window_operand *o = &a->operands[number];

	for (;; o++) {
		uint32_t bytes;
		const uint64_t address = window_operand_address(a, o, &bytes);

		if (a->request.user_access(pc, address, bytes, o->access, a->regs.r,
					   a->request.arg))
			return 1;
		if (o->is_last)
			return 0;
	}
}

int window_block_before(struct window_area *a, uint64_t pc, uint32_t insns)
{
	return a->request.user_block(pc, insns, a->regs.r, a->request.arg);
}
