/* SPDX-License-Identifier: MIT */
/*
 * emulate.h - do what an instruction does, on a register set, without executing it.
 *
 * For the instruction that stands under an int3 of ours: the common ones of function entries and
 * branches. They must end in exactly the registers, flags and memory that the processor would
 * leave; what is not in the set is refused, and then runs as a copy elsewhere (relocate.h).
 *
 * Usable in a signal handler: see insn.h.
 *
 * x86-64: nop, endbr, pause; jmp, jcc, loop, jrcxz, call, ret, also indirect; push and
 * pop of a register or immediate, leave; mov, movzx, movsx, movsxd, lea, xchg, cmov, setcc, add,
 * or, adc, sbb, and, sub, xor, cmp, test, inc, dec, neg, not between registers and immediates.
 * Operands in memory only where the stack or a jump through memory needs them.
 *
 * arm64: nop and hints, b, bl, b.cond, cbz, tbz, br, blr, ret; adr, adrp; movz, movn, movk; add and
 * sub (immediate, without flags) between general registers and sp.
 *
 * Under a shadow stack (CET, GCS) call and ret must not be emulated: the caller knows and asks not.
 */
#ifndef CODE_EMULATE_H
#define CODE_EMULATE_H

#include "code/insn.h"

/* How memory is reached. Each returns 0 or -errno, and nothing is done then. */
struct insn_memory_access {
	int (*read)(void *context, uint64_t address, void *out, size_t bytes);
	int (*write)(void *context, uint64_t address, const void *in, size_t bytes);
	void *context;
};

/* This process, by plain loads and stores: they fault where the instruction would have. */
extern const struct insn_memory_access insn_own_memory;

/*
 * insn_emulate - apply insn to regs, whose pc is the instruction's address; the pc is moved on.
 *
 * bytes are those that insn was decoded from. *regs is untouched on failure.
 * Errors: -EOPNOTSUPP not in the set; -ENODATA a register or the flags it needs are not known;
 * what memory returned.
 */
int insn_emulate_x86_64(const struct insn *insn, const void *bytes,
			const struct insn_memory_access *memory, struct insn_regs *regs);
int insn_emulate_arm64(const struct insn *insn, const void *bytes,
		       const struct insn_memory_access *memory, struct insn_regs *regs);

/* Would insn_emulate() take it, as far as the instruction alone decides? */
int insn_can_emulate_x86_64(const struct insn *insn, const void *bytes);
int insn_can_emulate_arm64(const struct insn *insn, const void *bytes);

/*
 * insn_stored - what a plain store will leave in memory: mov from a general register or an immediate.
 *
 * Errors: as insn_emulate(). x86-64 alone, where the one that asks is.
 */
int insn_stored_x86_64(const struct insn *insn, const void *bytes, const struct insn_regs *regs,
		       uint64_t *out);

#if defined(__x86_64__)
#define insn_emulate insn_emulate_x86_64
#define insn_stored insn_stored_x86_64
#define insn_can_emulate insn_can_emulate_x86_64
#elif defined(__aarch64__)
#define insn_emulate insn_emulate_arm64
#define insn_can_emulate insn_can_emulate_arm64
#endif

#endif
