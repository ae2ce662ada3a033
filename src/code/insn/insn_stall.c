/* SPDX-License-Identifier: MIT */
/* insn_stall.c - see insn_stall.h. */
#include "code/insn/insn_stall.h"

#include "base/trap_path.h"

TRAP_PATH int insn_can_stall(const struct insn *insn, unsigned int operand)
{
	const struct insn_memory *m = &insn->memory[operand];

	if (insn->flags & (INSN_ATOMIC | INSN_HINT | INSN_PRIVILEGED))
		return 0;
	if (insn->kind != INSN_OTHER && insn->kind != INSN_STRING)
		return 0;
	if (m->segment || m->size == 0 || !m->access)
		return 0;
	if (m->flags &
	    (INSN_MEM_LANES | INSN_MEM_NOT_COMPUTABLE | INSN_MEM_SIZE_UNKNOWN | INSN_MEM_BIT_INDEX))
		return 0;
	if (m->flags & INSN_MEM_CONDITIONAL && insn->kind != INSN_STRING)
		return 0;
	return !(m->flags & INSN_MEM_IMPLICIT) || insn->kind == INSN_STRING;
}
