/* SPDX-License-Identifier: MIT */
/*
 * slot_origin.c - which instruction a copy is made of. The pc of a thread in the copy shows nothing
 * to an unwinder, or to code that asks whose code that is. The jump behind the copy shows it.
 */
#include "code/poke/slot_origin.h"
#include "base/atomic.h"
#include "base/trap_path.h"
#include "code/insn/insn.h"
#include "code/poke/trap_code.h"

struct slot_arena slot_arenas[SLOT_ARENAS];
uint32_t slot_arena_count;

TRAP_PATH static uint64_t origin_in(uint64_t slot, uint64_t pc)
{
	struct insn insn;

	if (pc != slot)
		return code_jump_target(pc);
	/* Before the copy, or inside it where it repeats. */
	if (insn_decode((const void *)(uintptr_t)slot, INSN_LENGTH_MAX, &insn))
		return 0;
	uint64_t next = code_jump_target(slot + insn.length);
	return next ? next - insn.length : 0;
}

TRAP_PATH uint64_t slot_origin(uint64_t pc)
{
	uint32_t count = atomic_get(&slot_arena_count);

	for (uint32_t i = 0; i < count; i++) {
		uint64_t offset = pc - slot_arenas[i].start;

		if (offset < SLOT_ARENA_BYTES)
			return origin_in(pc - offset % SLOT_BYTES, pc);
	}
	return 0;
}
