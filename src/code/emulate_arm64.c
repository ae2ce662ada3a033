/* SPDX-License-Identifier: MIT */
/* emulate_arm64.c - see emulate.h. */
#include <errno.h>
#include <string.h>

#include "code/emulate.h"
#include "code/insn_arm64.h"

/* Number 31 as an operand that is not sp: reads as 0, writes go nowhere. */
static uint64_t get(const struct insn_regs *regs, unsigned int reg)
{
	return reg == 31 ? 0 : regs->r[reg];
}

static void set(struct insn_regs *regs, unsigned int reg, uint64_t value)
{
	if (reg != 31)
		regs->r[reg] = value;
}

static int do_branch(const struct insn *insn, uint32_t word, struct insn_regs *regs)
{
	const uint64_t pc = regs->r[INSN_ARM64_PC];
	uint64_t target = pc + (uint64_t)insn->target;

	if (insn->kind == INSN_JUMP_CONDITIONAL && !insn_branch_taken(insn, regs))
		target = pc + 4;
	if (!(insn->flags & INSN_RELATIVE_BRANCH)) {
		/* With authentication the register holds a signature too. */
		if (insn->flags & INSN_PRIVILEGED || arm64_bits(word, 10, 6))
			return -EOPNOTSUPP;
		target = get(regs, insn->target_reg);
	}
	if (insn->kind == INSN_CALL || insn->kind == INSN_CALL_INDIRECT)
		regs->r[INSN_ARM64_LR] = pc + 4;
	regs->r[INSN_ARM64_PC] = target;
	return 0;
}

static void do_address(const struct insn *insn, uint32_t word, struct insn_regs *regs)
{
	const uint64_t pc = regs->r[INSN_ARM64_PC];
	const uint64_t from = word >> 31 ? pc & ~0xfffull : pc;

	set(regs, arm64_bits(word, 0, 5), from + (uint64_t)insn->target);
}

/* add and sub of an immediate to registers or sp, without flags. */
static void do_add(uint32_t word, struct insn_regs *regs)
{
	const uint64_t amount = (uint64_t)arm64_bits(word, 10, 12)
				<< (word >> 22 & 1 ? 12 : 0);
	const uint64_t a = regs->r[arm64_bits(word, 5, 5)];
	const uint64_t sum = word >> 30 & 1 ? a - amount : a + amount;

	regs->r[arm64_bits(word, 0, 5)] = word >> 31 ? sum : sum & 0xffffffffu;
}

static int do_move(uint32_t word, struct insn_regs *regs)
{
	const unsigned int shift = arm64_bits(word, 21, 2) * 16;
	const unsigned int rd = arm64_bits(word, 0, 5);
	const uint64_t value = (uint64_t)arm64_bits(word, 5, 16) << shift;
	uint64_t result;

	if (!(word >> 31) && shift >= 32)
		return -EOPNOTSUPP;
	switch (arm64_bits(word, 29, 2)) {
	case 0:
		result = ~value;
		break;
	case 2:
		result = value;
		break;
	case 3:
		result = (get(regs, rd) & ~(0xffffull << shift)) | value;
		break;
	default:
		return -EOPNOTSUPP;
	}
	set(regs, rd, word >> 31 ? result : result & 0xffffffffu);
	return 0;
}

static int do_other(const struct insn *insn, uint32_t word, struct insn_regs *regs)
{
	int err = 0;

	if (insn->kind != INSN_OTHER || insn->memory_count)
		return -EOPNOTSUPP;
	if (arm64_is(word, 0x1f000000, 0x10000000))
		do_address(insn, word, regs);
	else if (arm64_is(word, 0x3f800000, 0x11000000))
		do_add(word, regs);
	else if (arm64_is(word, 0x1f800000, 0x12800000))
		err = do_move(word, regs);
	else
		return -EOPNOTSUPP;
	if (!err)
		regs->r[INSN_ARM64_PC] += 4;
	return err;
}

static int do_kind(const struct insn *insn, uint32_t word, struct insn_regs *regs)
{
	switch (insn->kind) {
	case INSN_NOP:
	case INSN_LANDING:
		regs->r[INSN_ARM64_PC] += 4;
		return 0;
	case INSN_JUMP:
	case INSN_JUMP_CONDITIONAL:
	case INSN_JUMP_INDIRECT:
	case INSN_CALL:
	case INSN_CALL_INDIRECT:
	case INSN_RETURN:
		return do_branch(insn, word, regs);
	default:
		return do_other(insn, word, regs);
	}
}

int insn_emulate_arm64(const struct insn *insn, const void *bytes,
		       const struct insn_memory_access *memory, struct insn_regs *regs)
{
	const uint64_t needed = insn->reads | insn->writes | 1ull << INSN_ARM64_PC;
	struct insn_regs next = *regs;
	uint32_t word;

	if (needed & ~regs->known ||
	    (insn->flags & INSN_READS_FLAGS && !(regs->known & INSN_KNOWS_FLAGS)))
		return -ENODATA;
	memcpy(&word, bytes, sizeof(word));
	const int err = do_kind(insn, word, &next);
	if (!err)
		*regs = next;
	return err;
}

int insn_can_emulate_arm64(const struct insn *insn, const void *bytes)
{
	struct insn_regs regs = { .known = ~0ull };

	return insn_emulate_arm64(insn, bytes, NULL, &regs) == 0;
}
