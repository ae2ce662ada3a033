/* SPDX-License-Identifier: MIT */
/*
 * insn_arm64.c - arm64 instructions, decoded by hand: branches, system, data processing.
 *
 * Loads and stores are in insn_arm64_memory.c. Those and the branches are decoded strictly. For
 * data processing only the used registers and flags are reported, and words that the architecture
 * has not allocated there pass as INSN_OTHER. The oracle is objdump: tests/unit/test_insn_arm64.c.
 */
#include <errno.h>
#include <string.h>

#include "code/insn/insn_arm64.h"

static void set_branch(struct insn *out, enum insn_kind kind, int64_t target)
{
	out->kind = (uint8_t)kind;
	out->flags |= INSN_RELATIVE_BRANCH;
	out->target = target;
}

static void set_test(struct insn *out, uint32_t word, enum insn_condition condition,
		     unsigned int bytes)
{
	out->condition = (uint8_t)condition;
	out->target_reg = (uint8_t)arm64_bits(word, 0, 5);
	out->reads |= arm64_mask(out->target_reg);
	out->operand_bytes = (uint8_t)bytes;
	/* The zero register is always 0: cbz is taken, cbnz is not. */
	if (out->target_reg == 31)
		out->target_reg = INSN_NO_REG;
}

/* b, bl, b.cond, cbz, cbnz, tbz, tbnz: 1 when it was one of them. */
static int decode_relative_branch(uint32_t word, struct insn *out)
{
	if (arm64_is(word, 0x7c000000, 0x14000000)) {
		const int links = word >> 31;

		set_branch(out, links ? INSN_CALL : INSN_JUMP, arm64_signed_bits(word, 0, 26) * 4);
		out->writes |= links ? 1ull << INSN_ARM64_LR : 0;
		return 1;
	}
	if (arm64_is(word, 0xff000000, 0x54000000)) {
		set_branch(out, INSN_JUMP_CONDITIONAL, arm64_signed_bits(word, 5, 19) * 4);
		out->condition = (uint8_t)arm64_bits(word, 0, 4);
		out->flags |= INSN_READS_FLAGS;
		return 1;
	}
	if (arm64_is(word, 0x7e000000, 0x34000000)) {
		set_branch(out, INSN_JUMP_CONDITIONAL, arm64_signed_bits(word, 5, 19) * 4);
		set_test(out, word, word >> 24 & 1 ? INSN_CONDITION_CBNZ : INSN_CONDITION_CBZ,
			 word >> 31 ? 8 : 4);
		return 1;
	}
	if (arm64_is(word, 0x7e000000, 0x36000000)) {
		set_branch(out, INSN_JUMP_CONDITIONAL, arm64_signed_bits(word, 5, 14) * 4);
		set_test(out, word, word >> 24 & 1 ? INSN_CONDITION_TBNZ : INSN_CONDITION_TBZ, 8);
		out->tested_bit = (uint8_t)(word >> 31 << 5 | arm64_bits(word, 19, 5));
		return 1;
	}
	return 0;
}

/* br, blr, ret, eret and their forms with pointer authentication. */
static int decode_register_branch(uint32_t word, struct insn *out)
{
	static const uint8_t kinds[] = { INSN_JUMP_INDIRECT, INSN_CALL_INDIRECT, INSN_RETURN };
	const unsigned int operation = arm64_bits(word, 21, 4);
	const unsigned int authentication = arm64_bits(word, 10, 6);
	const unsigned int target = arm64_bits(word, 5, 5);

	const unsigned int modifier = arm64_bits(word, 0, 5);

	if (arm64_bits(word, 16, 5) != 31 || (authentication & ~1u) != (authentication ? 2 : 0))
		return -EILSEQ;
	/* Where no register is named the fields are all zeros, or ones with authentication. */
	if (operation < 8 && modifier != (authentication ? 31 : 0))
		return -EILSEQ;
	if (operation == 4 || operation == 5) {
		if (target != 31 || (operation == 5 && authentication))
			return -EILSEQ;
		out->kind = INSN_RETURN;
		out->flags |= INSN_PRIVILEGED;
		return 0;
	}
	if ((operation & 7) > 2 || operation == 10 || (operation > 2 && !authentication) ||
	    (operation == 2 && authentication && target != 31))
		return -EILSEQ;
	out->kind = kinds[operation & 7];
	/* retaa and retab name no register: it is the link register. */
	out->target_reg = operation == 2 && authentication ? INSN_ARM64_LR : (uint8_t)target;
	out->reads |= arm64_mask(out->target_reg);
	if (operation > 2)
		out->reads |= arm64_mask_sp(modifier);
	if (out->kind == INSN_CALL_INDIRECT)
		out->writes |= 1ull << INSN_ARM64_LR;
	return 0;
}

static int decode_exception(uint32_t word, struct insn *out)
{
	const unsigned int operation = arm64_bits(word, 21, 3) << 5 | arm64_bits(word, 0, 5);

	switch (operation) {
	case 0 << 5 | 1: /* svc */
		out->kind = INSN_SYSCALL;
		return 0;
	case 0 << 5 | 2: /* hvc */
	case 0 << 5 | 3: /* smc */
	case 5 << 5 | 1: /* dcps1 to dcps3 */
	case 5 << 5 | 2:
	case 5 << 5 | 3:
		out->flags |= INSN_PRIVILEGED;
		return 0;
	case 1 << 5: /* brk */
	case 2 << 5: /* hlt */
		out->kind = INSN_TRAP;
		return 0;
	case 3 << 5: /* tcancel */
		out->flags |= INSN_NOT_RELOCATABLE;
		return 0;
	default:
		return -EILSEQ;
	}
}

static void decode_hint(uint32_t word, struct insn *out)
{
	const unsigned int hint = arm64_bits(word, 5, 7);

	if (hint <= 1) /* nop, yield */
		out->kind = INSN_NOP;
	else if (hint == 32 || hint == 34 || hint == 36 || hint == 38) /* bti */
		out->kind = INSN_LANDING;
	else if (hint == 7 || (hint >= 24 && hint <= 31)) /* xpaclri, paciaz to autibsp */
		out->reads = out->writes = 1ull << INSN_ARM64_LR;
	if (hint == 25 || hint == 27 || hint == 29 || hint == 31) /* those with sp */
		out->reads |= 1ull << INSN_ARM64_SP;
	if (hint == 8 || hint == 10 || hint == 12 || hint == 14) { /* pacia1716 and kin */
		out->reads = 1ull << 16 | 1ull << 17;
		out->writes = 1ull << 17;
	}
}

/* dc zva and its kin clear a block of a size that is in a system register. */
static void decode_cache_operation(uint32_t word, struct insn *out)
{
	const unsigned int operation = arm64_bits(word, 5, 14); /* op1, CRn, CRm, op2 */
	const unsigned int zva = 3 << 11 | 7 << 7 | 4 << 3;
	struct insn_memory *m = &out->memory[0];

	if (operation != (zva | 1) && operation != (zva | 3) && operation != (zva | 4))
		return;
	out->memory_count = 1;
	m->access = INSN_WRITE;
	m->base = (uint8_t)arm64_bits(word, 0, 5);
	m->index = m->bit_reg = INSN_NO_REG;
	m->flags = INSN_MEM_SIZE_UNKNOWN | INSN_MEM_ALIGNED_DOWN;
	if (m->base == 31)
		m->flags |= INSN_MEM_NOT_COMPUTABLE;
}

static int decode_system(uint32_t word, struct insn *out)
{
	const unsigned int rt = arm64_bits(word, 0, 5);

	if (arm64_is(word, 0xfffff01f, 0xd503201f)) {
		decode_hint(word, out);
	} else if (arm64_is(word, 0xfffff01f, 0xd503301f)) {
		const unsigned int operation = arm64_bits(word, 5, 3);

		if (operation == 1 || operation >= 4) /* dsb, dmb, isb, sb; 2 is clrex */
			out->kind = INSN_FENCE;
	} else if (arm64_is(word, 0xfff8f01f, 0xd500401f)) {
		/* msr of a field of PSTATE, cfinv: some write the flags. */
		out->flags |= INSN_READS_FLAGS | INSN_WRITES_FLAGS;
	} else if (arm64_is(word, 0xfff80000, 0xd5080000)) {
		out->reads |= arm64_mask(rt);
		decode_cache_operation(word, out);
	} else if (arm64_is(word, 0xfff00000, 0xd5100000)) {
		out->reads |= arm64_mask(rt);
		out->flags |= INSN_WRITES_FLAGS; /* msr nzcv is one of them */
	} else if (arm64_is(word, 0xffd80000, 0xd5080000) ||
		   arm64_is(word, 0xfff00000, 0xd5300000)) {
		out->writes |= arm64_mask(rt);
		out->flags |= INSN_READS_FLAGS;
	} else if (arm64_is(word, 0xfffff000, 0xd5031000)) {
		out->reads |= arm64_mask(rt); /* wfet, wfit */
	} else if (arm64_is(word, 0xfffffee0, 0xd5233060)) {
		out->writes |= arm64_mask(rt); /* tstart, ttest: a transaction begins again here */
		out->flags |= INSN_NOT_RELOCATABLE;
	} else {
		return -EILSEQ;
	}
	return 0;
}

static int decode_branch_or_system(uint32_t word, struct insn *out)
{
	if (decode_relative_branch(word, out))
		return 0;
	if (arm64_is(word, 0xfe000000, 0xd6000000))
		return decode_register_branch(word, out);
	if (arm64_is(word, 0xff000000, 0xd4000000))
		return decode_exception(word, out);
	if (arm64_is(word, 0xffc00000, 0xd5000000))
		return decode_system(word, out);
	return -EILSEQ;
}

static void decode_address(uint32_t word, struct insn *out)
{
	const int64_t distance = arm64_signed_bits(word, 5, 19) * 4 |
				 (int64_t)arm64_bits(word, 29, 2);

	out->flags |= INSN_PC_RELATIVE;
	out->target = word >> 31 ? distance * 4096 : distance;
	out->writes |= arm64_mask(arm64_bits(word, 0, 5));
}

/* Immediate operands: adr, add, sub, and, orr, eor, movz, movk, bitfields, extract. */
static void decode_immediate(uint32_t word, struct insn *out)
{
	const unsigned int rd = arm64_bits(word, 0, 5);
	const unsigned int rn = arm64_bits(word, 5, 5);
	const unsigned int operation = arm64_bits(word, 29, 2);

	switch (arm64_bits(word, 23, 3)) {
	case 0:
	case 1:
		decode_address(word, out);
		return;
	case 2:
	case 3: /* add, sub; with tags */
		out->reads |= arm64_mask_sp(rn);
		out->writes |= operation & 1 ? arm64_mask(rd) : arm64_mask_sp(rd);
		out->flags |= operation & 1 ? INSN_WRITES_FLAGS : 0;
		return;
	case 4: /* logical */
		out->reads |= arm64_mask(rn);
		out->writes |= operation == 3 ? arm64_mask(rd) : arm64_mask_sp(rd);
		out->flags |= operation == 3 ? INSN_WRITES_FLAGS : 0;
		return;
	case 5: /* movn, movz, movk */
		out->reads |= operation == 3 ? arm64_mask(rd) : 0;
		out->writes |= arm64_mask(rd);
		return;
	case 6: /* bitfields; bfm keeps the rest of its register */
		out->reads |= arm64_mask(rn) | (operation == 1 ? arm64_mask(rd) : 0);
		out->writes |= arm64_mask(rd);
		return;
	default:
		out->reads |= arm64_mask(rn) | arm64_mask(arm64_bits(word, 16, 5));
		out->writes |= arm64_mask(rd);
		return;
	}
}

/* adc, sbc, rmif, ccmp, csel: register forms that read the flags, and those of two sources. */
static void decode_register_misc(uint32_t word, struct insn *out)
{
	const unsigned int group = arm64_bits(word, 21, 4);
	const int sets_flags = word >> 29 & 1;

	switch (group) {
	case 0: /* adc, sbc, rmif, setf */
		out->flags |= INSN_READS_FLAGS;
		if (sets_flags)
			out->flags |= INSN_WRITES_FLAGS;
		if (arm64_bits(word, 10, 5) & 3) /* rmif and setf have no destination */
			out->writes = 0;
		return;
	case 2: /* ccmp: the register field before last may be an immediate */
		out->flags |= INSN_READS_FLAGS | INSN_WRITES_FLAGS;
		out->writes = 0;
		return;
	case 4: /* csel */
		out->flags |= INSN_READS_FLAGS;
		return;
	default: /* one and two sources; subps sets flags */
		if (sets_flags && !(word >> 30 & 1))
			out->flags |= INSN_WRITES_FLAGS;
		return;
	}
}

/* Three registers: arithmetic, logic, multiplication. */
static void decode_register(uint32_t word, struct insn *out)
{
	const unsigned int rd = arm64_bits(word, 0, 5);
	const unsigned int rn = arm64_bits(word, 5, 5);
	const unsigned int operation = arm64_bits(word, 29, 2);
	const int extended = arm64_is(word, 0x1f200000, 0x0b200000);

	out->reads |= arm64_mask(rn) | arm64_mask(arm64_bits(word, 16, 5));
	out->writes |= arm64_mask(rd);
	if (extended) {
		out->reads |= arm64_mask_sp(rn);
		out->writes |= operation & 1 ? 0 : arm64_mask_sp(rd);
	}
	switch (arm64_bits(word, 24, 5)) {
	case 0x0a: /* logical */
		out->flags |= operation == 3 ? INSN_WRITES_FLAGS : 0;
		return;
	case 0x0b: /* add, sub */
		out->flags |= operation & 1 ? INSN_WRITES_FLAGS : 0;
		return;
	case 0x1a:
		decode_register_misc(word, out);
		return;
	default: /* multiply and add */
		out->reads |= arm64_mask(arm64_bits(word, 10, 5));
		return;
	}
}

/* Vectors: which of them exchange with general registers or flags. */
static void decode_vector(uint32_t word, struct insn *out)
{
	const uint64_t rd = arm64_mask(arm64_bits(word, 0, 5));
	const uint64_t rn = arm64_mask(arm64_bits(word, 5, 5));
	const unsigned int operation = arm64_bits(word, 16, 3);
	const unsigned int copy = arm64_bits(word, 11, 4);

	out->flags |= INSN_VECTOR;
	if (arm64_is(word, 0x5f20fc00, 0x1e200000) || arm64_is(word, 0x5f200000, 0x1e000000)) {
		/* Conversions: scvtf, ucvtf and one fmov take a general register. */
		if (operation == 2 || operation == 3 || operation == 7)
			out->reads |= rn;
		else
			out->writes |= rd;
	} else if (arm64_is(word, 0xff203c07, 0x1e202000)) {
		out->flags |= INSN_WRITES_FLAGS; /* fcmp */
	} else if (arm64_is(word, 0xff200c00, 0x1e200400)) {
		out->flags |= INSN_READS_FLAGS | INSN_WRITES_FLAGS; /* fccmp */
	} else if (arm64_is(word, 0xff200c00, 0x1e200c00)) {
		out->flags |= INSN_READS_FLAGS; /* fcsel */
	} else if (arm64_is(word, 0xbfe08400, 0x0e000400)) {
		if (copy == 1 || copy == 3) /* dup, ins */
			out->reads |= rn;
		else if (copy == 5 || copy == 7) /* smov, umov */
			out->writes |= rd;
	}
}

/* Scalable vectors and matrices: that memory is accessed, not where. */
static void decode_scalable(uint32_t word, struct insn *out)
{
	const int is_matrix = arm64_is(word, 0xfe000000, 0xe0000000);
	struct insn_memory *m = &out->memory[0];
	int is_store = word >> 29 == 7;

	out->flags |= INSN_VECTOR;
	if (!(word >> 31) || (!is_matrix && !(word >> 25 & 1)))
		return;
	if (is_matrix)
		is_store = word >> 21 & 1;
	if (!is_matrix && !arm64_is(word, 0x9e000000, 0x84000000))
		return;
	out->memory_count = 1;
	m->access = is_store ? INSN_WRITE : INSN_READ;
	m->base = m->index = m->bit_reg = INSN_NO_REG;
	m->flags = INSN_MEM_NOT_COMPUTABLE | INSN_MEM_SIZE_UNKNOWN | INSN_MEM_CONDITIONAL;
	out->reads = 0xffffffffu; /* no matter which: they are not distinguished */
}

static int decode_word(uint32_t word, struct insn *out)
{
	switch (arm64_bits(word, 25, 4)) {
	case 0x0:
		if (!(word >> 16)) {
			out->kind = INSN_TRAP; /* udf */
			return 0;
		}
		if (!(word >> 31))
			return -EILSEQ;
		decode_scalable(word, out);
		return 0;
	case 0x2:
		decode_scalable(word, out);
		return 0;
	case 0x8:
	case 0x9:
		decode_immediate(word, out);
		return 0;
	case 0xa:
	case 0xb:
		return decode_branch_or_system(word, out);
	case 0x4:
	case 0x6:
	case 0xc:
	case 0xe:
		return arm64_decode_memory(word, out);
	case 0x5:
	case 0xd:
		decode_register(word, out);
		return 0;
	case 0x7:
	case 0xf:
		decode_vector(word, out);
		return 0;
	default:
		return -EILSEQ;
	}
}

int insn_decode_arm64(const void *bytes, size_t available, struct insn *out)
{
	uint8_t b[4];

	if (available < sizeof(b))
		return -ENODATA;
	memcpy(b, bytes, sizeof(b));
	const uint32_t word = (uint32_t)b[3] << 24 | (uint32_t)b[2] << 16 | (uint32_t)b[1] << 8 |
			      b[0];
	struct insn decoded = {
		.arch = INSN_ARM64,
		.length = 4,
		.condition = INSN_CONDITION_NONE,
		.target_reg = INSN_NO_REG,
		.operand_bytes = word >> 31 ? 8 : 4,
		.address_bytes = 8,
	};
	const int err = decode_word(word, &decoded);

	if (!err)
		*out = decoded;
	return err;
}
