/* SPDX-License-Identifier: MIT */
/*
 * poke_store_arm64.c - which changes one store can make: see poke_store.h.
 *
 * From one of the instructions to another that the architecture lists for concurrent modification
 * and execution. A conditional branch is not among them.
 */
#include "code/insn/insn_arm64.h"
#include "code/poke/poke.h"
#include "code/poke/poke_store.h"

static int may_change_at_once(uint32_t word)
{
	return arm64_is(word, 0x7c000000, 0x14000000) || /* b, bl */
	       word == 0xd503201f ||			 /* nop */
	       arm64_is(word, 0xffe0001f, 0xd4200000) || /* brk */
	       arm64_is(word, 0xffe0001f, 0xd4000001) || /* svc */
	       arm64_is(word, 0xffe0001f, 0xd4000002) || /* hvc */
	       arm64_is(word, 0xffe0001f, 0xd4000003) || /* smc */
	       arm64_is(word, 0xfffff0ff, 0xd50330df);	 /* isb */
}

int poke_can_store(const struct poke_entry *entry, uint32_t flags)
{
	return !(flags & TRAPLINE_POKE_SPIN) && entry->len == TRAP_BYTES &&
	       may_change_at_once(code_word(entry->before)) &&
	       may_change_at_once(code_word(entry->after));
}
