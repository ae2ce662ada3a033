/* SPDX-License-Identifier: MIT */
/* insn.c - addresses of operands and outcomes of branches, from registers; see insn.h. */
#include <errno.h>

#include "code/insn/insn.h"

static int read_reg(const struct insn_regs *regs, uint8_t reg, uint64_t *out)
{
	if (reg == INSN_NO_REG) {
		*out = 0;
		return 0;
	}
	if (reg >= INSN_REGS || !(regs->known & 1ull << reg))
		return -ENODATA;
	*out = regs->r[reg];
	return 0;
}

static int64_t extend(uint64_t value, unsigned int bits, int is_signed)
{
	if (bits == 0 || bits >= 64)
		return (int64_t)value;
	const unsigned int unused = 64 - bits;

	return is_signed ? (int64_t)(value << unused) >> unused :
			   (int64_t)(value << unused >> unused);
}

static int segment_base(const struct insn_memory *m, const struct insn_regs *regs, uint64_t *out)
{
	*out = 0;
	if (m->segment == INSN_SEGMENT_FS) {
		*out = regs->fs_base;
		return regs->known & INSN_KNOWS_FS ? 0 : -ENODATA;
	}
	if (m->segment == INSN_SEGMENT_GS) {
		*out = regs->gs_base;
		return regs->known & INSN_KNOWS_GS ? 0 : -ENODATA;
	}
	return 0;
}

/* bt and kin: the bit number counts from the operand, in both directions. */
static int bit_offset(const struct insn_memory *m, const struct insn_regs *regs, uint64_t *out)
{
	uint64_t value;

	*out = 0;
	if (!(m->flags & INSN_MEM_BIT_INDEX))
		return 0;
	const int err = read_reg(regs, m->bit_reg, &value);
	if (err)
		return err;
	const int64_t bit = extend(value, m->bit_bits, 1);
	const int64_t granule = m->bit_bits;
	/* Rounds down, also below zero. */
	const int64_t whole = (bit - (bit & (granule - 1))) / granule;

	*out = (uint64_t)(whole * (granule / 8));
	return 0;
}

/* All of the address but an index. */
static int address_without_index(const struct insn_memory *m, const struct insn_regs *regs,
				 uint64_t *sum, uint64_t *segment)
{
	uint64_t bits;
	int err = read_reg(regs, m->base, sum);

	if (!err)
		err = segment_base(m, regs, segment);
	if (!err)
		err = bit_offset(m, regs, &bits);
	if (err)
		return err;
	*sum += (uint64_t)m->displacement + bits;
	return 0;
}

static uint64_t finish(const struct insn_memory *m, uint64_t sum, uint64_t segment)
{
	if (m->flags & INSN_MEM_ADDRESS_32)
		sum &= 0xffffffffu;
	if (m->flags & INSN_MEM_ALIGNED_DOWN && m->size)
		sum &= ~((uint64_t)m->size - 1);
	return sum + segment;
}

int insn_address(const struct insn *insn, unsigned int i, const struct insn_regs *before,
		 uint64_t *out)
{
	uint64_t sum;
	uint64_t segment;
	uint64_t index;

	if (i >= insn->memory_count)
		return -EINVAL;
	const struct insn_memory *m = &insn->memory[i];
	if (m->flags & (INSN_MEM_LANES | INSN_MEM_NOT_COMPUTABLE))
		return -EOPNOTSUPP;
	int err = address_without_index(m, before, &sum, &segment);
	if (!err)
		err = read_reg(before, m->index, &index);
	if (err)
		return err;
	sum += (uint64_t)extend(index, m->index_bits, m->index_signed) * m->scale;
	*out = finish(m, sum, segment);
	return 0;
}

int insn_touches(const struct insn *insn, unsigned int i, const struct insn_regs *before,
		 uint64_t address, uint64_t len)
{
	uint64_t start;

	if (i < insn->memory_count &&
	    insn->memory[i].flags & (INSN_MEM_LANES | INSN_MEM_NOT_COMPUTABLE))
		return 2;
	const int err = insn_address(insn, i, before, &start);
	if (err)
		return err;
	if (insn->memory[i].flags & INSN_MEM_SIZE_UNKNOWN)
		return address + len > start ? 2 : 0;
	/* By distances, so that ranges at the end of the address space are right too. */
	return address - start < insn->memory[i].size || start - address < len;
}

/* The 16 conditions of x86-64: pairs, the odd one of each is the opposite. */
static int x86_condition(unsigned int condition, uint64_t flags)
{
	const int carry = flags & 1;
	const int parity = flags >> 2 & 1;
	const int zero = flags >> 6 & 1;
	const int sign = flags >> 7 & 1;
	const int overflow = flags >> 11 & 1;
	int holds = 0;

	switch (condition >> 1) {
	case 0:
		holds = overflow;
		break;
	case 1:
		holds = carry;
		break;
	case 2:
		holds = zero;
		break;
	case 3:
		holds = carry | zero;
		break;
	case 4:
		holds = sign;
		break;
	case 5:
		holds = parity;
		break;
	case 6:
		holds = sign != overflow;
		break;
	default:
		holds = zero | (sign != overflow);
		break;
	}
	return holds ^ (condition & 1);
}

/* loop and jrcxz count in rcx, or in ecx with the prefix 67: address_bytes states which. */
static int x86_counts(const struct insn *insn, const struct insn_regs *before)
{
	uint64_t count;
	const int is_jrcxz = insn->condition == INSN_CONDITION_RCXZ;
	const int zero = before->flags >> 6 & 1;

	if (read_reg(before, INSN_RCX, &count))
		return -ENODATA;
	count -= !is_jrcxz;
	if (insn->address_bytes == 4)
		count &= 0xffffffffu;
	if (is_jrcxz)
		return count == 0;
	if (insn->condition == INSN_CONDITION_LOOP)
		return count != 0;
	if (!(before->known & INSN_KNOWS_FLAGS))
		return -ENODATA;
	return count != 0 && zero == (insn->condition == INSN_CONDITION_LOOPE);
}

static int arm64_condition(unsigned int condition, uint64_t flags)
{
	const int negative = flags >> 31 & 1;
	const int zero = flags >> 30 & 1;
	const int carry = flags >> 29 & 1;
	const int overflow = flags >> 28 & 1;
	int holds = 1;

	switch (condition >> 1) {
	case 0:
		holds = zero;
		break;
	case 1:
		holds = carry;
		break;
	case 2:
		holds = negative;
		break;
	case 3:
		holds = overflow;
		break;
	case 4:
		holds = carry && !zero;
		break;
	case 5:
		holds = negative == overflow;
		break;
	case 6:
		holds = !zero && negative == overflow;
		break;
	default:
		return 1; /* al and nv */
	}
	return holds ^ (condition & 1);
}

/* cbz, cbnz, tbz, tbnz. */
static int arm64_tests(const struct insn *insn, const struct insn_regs *before)
{
	uint64_t value;

	if (read_reg(before, insn->target_reg, &value))
		return -ENODATA;
	if (insn->operand_bytes == 4)
		value &= 0xffffffffu;
	switch (insn->condition) {
	case INSN_CONDITION_CBZ:
		return value == 0;
	case INSN_CONDITION_CBNZ:
		return value != 0;
	case INSN_CONDITION_TBZ:
		return !(value >> insn->tested_bit & 1);
	default:
		return value >> insn->tested_bit & 1;
	}
}

int insn_branch_taken(const struct insn *insn, const struct insn_regs *before)
{
	if (insn->kind != INSN_JUMP_CONDITIONAL)
		return -EINVAL;
	if (insn->condition >= INSN_CONDITION_CBZ)
		return arm64_tests(insn, before);
	if (insn->condition >= INSN_CONDITION_LOOPNE)
		return x86_counts(insn, before);
	if (!(before->known & INSN_KNOWS_FLAGS))
		return -ENODATA;
	return insn->arch == INSN_X86_64 ? x86_condition(insn->condition, before->flags) :
					   arm64_condition(insn->condition, before->flags);
}
