/* SPDX-License-Identifier: MIT */
/*
 * insn_arm64_memory.c - arm64 loads and stores; see insn_arm64.c.
 *
 * One function for each row of the manual's table "Loads and Stores", whose rows differ in the bits
 * 29 to 24, 21 and 11 to 10.
 */
#include <errno.h>

#include "code/insn/insn_arm64.h"

static unsigned int rt_of(uint32_t word)
{
	return arm64_bits(word, 0, 5);
}

static unsigned int rn_of(uint32_t word)
{
	return arm64_bits(word, 5, 5);
}

static unsigned int rt2_of(uint32_t word)
{
	return arm64_bits(word, 10, 5);
}

static unsigned int rs_of(uint32_t word)
{
	return arm64_bits(word, 16, 5);
}

static int is_vector(uint32_t word)
{
	return word >> 26 & 1;
}

/* The operand [Xn|SP], to be refined. */
static struct insn_memory *add_operand(uint32_t word, struct insn *out, unsigned int access,
				       uint32_t size)
{
	struct insn_memory *m = &out->memory[out->memory_count++];

	m->access = (uint8_t)access;
	m->base = (uint8_t)rn_of(word);
	m->index = m->bit_reg = INSN_NO_REG;
	m->size = size;
	out->reads |= arm64_mask_sp(m->base);
	return m;
}

static void set_writeback(struct insn *out, struct insn_memory *m, int64_t amount)
{
	m->flags |= INSN_MEM_WRITEBACK;
	m->writeback = amount;
	out->writes |= arm64_mask_sp(m->base);
	if (m->base == INSN_ARM64_SP) {
		out->flags |= INSN_CHANGES_SP;
		out->sp_change = (int32_t)amount;
	}
}

/* A data register: read by a store, written by a load. */
static void use_register(struct insn *out, uint32_t word, unsigned int reg, int is_load)
{
	if (is_vector(word))
		out->flags |= INSN_VECTOR;
	else if (is_load)
		out->writes |= arm64_mask(reg);
	else
		out->reads |= arm64_mask(reg);
}

static void set_order(struct insn *out, int acquires, int releases)
{
	out->flags |= (acquires ? INSN_ACQUIRE : 0) | (releases ? INSN_RELEASE : 0);
}

/* cas and casp: Rs is what is expected and takes what was there. */
static int decode_compare_and_swap(uint32_t word, struct insn *out, uint32_t size, int is_pair)
{
	if (rt2_of(word) != 31 || (is_pair && (rs_of(word) | rt_of(word)) & 1))
		return -EILSEQ;
	struct insn_memory *m = add_operand(word, out, INSN_READ_WRITE, size);

	m->flags |= INSN_MEM_CONDITIONAL;
	out->flags |= INSN_ATOMIC;
	set_order(out, word >> 22 & 1, word >> 15 & 1);
	out->reads |= arm64_mask(rs_of(word)) | arm64_mask(rt_of(word));
	out->writes |= arm64_mask(rs_of(word));
	if (is_pair) {
		out->reads |= arm64_mask(rs_of(word) + 1) | arm64_mask(rt_of(word) + 1);
		out->writes |= arm64_mask(rs_of(word) + 1);
	}
	return 0;
}

/* ldxr, stxr, ldar, stlr, cas and their pairs. */
static int decode_exclusive(uint32_t word, struct insn *out)
{
	const unsigned int size = word >> 30;
	const int is_ordered = word >> 23 & 1; /* or cas, with bit 21 */
	const int is_load = word >> 22 & 1;
	const int is_pair = word >> 21 & 1; /* or cas */
	const int order = word >> 15 & 1;

	if (is_ordered && is_pair)
		return decode_compare_and_swap(word, out, 1u << size, 0);
	if (is_pair && size < 2)
		return decode_compare_and_swap(word, out, 8u << size, 1);

	/* Fields without a register should be all ones; what others do is not foretold. */
	struct insn_memory *m =
		add_operand(word, out, is_load ? INSN_READ : INSN_WRITE, (1u << size) << is_pair);
	use_register(out, word, rt_of(word), is_load);
	if (is_pair)
		use_register(out, word, rt2_of(word), is_load);
	if (is_ordered) {
		/* Also ldlar and stllr, which order within a region. */
		set_order(out, is_load, !is_load);
		return 0;
	}
	out->flags |= INSN_EXCLUSIVE;
	set_order(out, is_load && order, !is_load && order);
	if (!is_load) {
		m->flags |= INSN_MEM_CONDITIONAL;
		out->writes |= arm64_mask(rs_of(word));
	}
	return 0;
}

/* ldr, ldrsw and prfm from a location relative to the pc. */
static int decode_literal(uint32_t word, struct insn *out)
{
	static const uint8_t general[] = { 4, 8, 4, 0 };
	static const uint8_t vector[] = { 4, 8, 16, 0 };
	const unsigned int operation = word >> 30;

	out->flags |= INSN_PC_RELATIVE;
	out->target = arm64_signed_bits(word, 5, 19) * 4;
	if (operation == 3) {
		out->flags |= INSN_HINT;
		return is_vector(word) ? -EILSEQ : 0;
	}
	struct insn_memory *m =
		add_operand(word, out, INSN_READ, (is_vector(word) ? vector : general)[operation]);
	m->base = INSN_ARM64_PC;
	m->displacement = out->target;
	out->reads = 1ull << INSN_ARM64_PC;
	use_register(out, word, rt_of(word), 1);
	return 0;
}

/* Bytes of each of a pair; 0: no such instruction. */
static unsigned int pair_bytes(uint32_t word)
{
	const unsigned int operation = word >> 30;

	if (operation == 3)
		return 0;
	if (is_vector(word))
		return 4u << operation;
	if (operation == 1) {
		/* ldpsw, or stgp, which stores a pair of 8 bytes and counts in 16. */
		return word >> 22 & 1 ? 4 : 16;
	}
	return operation ? 8 : 4;
}

static int decode_pair(uint32_t word, struct insn *out)
{
	const unsigned int mode = arm64_bits(word, 23, 2);
	const int is_load = word >> 22 & 1;
	const unsigned int bytes = pair_bytes(word);
	const int is_tagged = !is_vector(word) && word >> 30 == 1 && !is_load;
	const int64_t offset = arm64_signed_bits(word, 15, 7) * bytes;

	/* ldpsw and stgp have no form without temporal hint. */
	if (!bytes || (mode == 0 && !is_vector(word) && word >> 30 == 1))
		return -EILSEQ;
	struct insn_memory *m = add_operand(word, out, is_load ? INSN_READ : INSN_WRITE,
					    is_tagged ? 16 : 2 * bytes);
	if (mode != 1)
		m->displacement = offset;
	if (mode & 1)
		set_writeback(out, m, offset);
	use_register(out, word, rt_of(word), is_load);
	use_register(out, word, rt2_of(word), is_load);
	return 0;
}

/* Size and direction of the one-register forms. -EILSEQ, or 1 for a prefetch. */
static int decode_size(uint32_t word, uint32_t *bytes, int *is_load)
{
	const unsigned int size = word >> 30;
	const unsigned int operation = arm64_bits(word, 22, 2);

	*bytes = 1u << size;
	*is_load = operation != 0;
	if (is_vector(word)) {
		*is_load = operation & 1;
		if (operation & 2) {
			*bytes = 16;
			return size ? -EILSEQ : 0;
		}
		return 0;
	}
	if (operation == 2 && size == 3)
		return 1;
	return operation == 3 && size >= 2 ? -EILSEQ : 0;
}

/* Unscaled, post-index, unprivileged and pre-index: nine bits of distance. */
static int decode_nine_bits(uint32_t word, struct insn *out)
{
	const unsigned int mode = arm64_bits(word, 10, 2);
	const int64_t offset = arm64_signed_bits(word, 12, 9);
	uint32_t bytes;
	int is_load;
	const int err = decode_size(word, &bytes, &is_load);

	if (err < 0 || (mode == 2 && is_vector(word)))
		return -EILSEQ;
	if (err == 1) {
		out->flags |= INSN_HINT;
		out->reads |= arm64_mask_sp(rn_of(word));
		return mode == 0 ? 0 : -EILSEQ;
	}
	struct insn_memory *m = add_operand(word, out, is_load ? INSN_READ : INSN_WRITE, bytes);
	if (mode != 1)
		m->displacement = offset;
	if (mode & 1)
		set_writeback(out, m, offset);
	use_register(out, word, rt_of(word), is_load);
	return 0;
}

static int decode_unsigned_offset(uint32_t word, struct insn *out)
{
	uint32_t bytes;
	int is_load;
	const int err = decode_size(word, &bytes, &is_load);

	if (err < 0)
		return err;
	if (err == 1) {
		out->flags |= INSN_HINT;
		out->reads |= arm64_mask_sp(rn_of(word));
		return 0;
	}
	struct insn_memory *m = add_operand(word, out, is_load ? INSN_READ : INSN_WRITE, bytes);
	m->displacement = (int64_t)arm64_bits(word, 10, 12) * bytes;
	use_register(out, word, rt_of(word), is_load);
	return 0;
}

static int decode_register_offset(uint32_t word, struct insn *out)
{
	const unsigned int option = arm64_bits(word, 13, 3);
	uint32_t bytes;
	int is_load;
	const int err = decode_size(word, &bytes, &is_load);

	if (err < 0 || !(option & 2))
		return -EILSEQ;
	out->reads |= arm64_mask(rs_of(word));
	if (err == 1) {
		out->flags |= INSN_HINT;
		out->reads |= arm64_mask_sp(rn_of(word));
		return 0;
	}
	struct insn_memory *m = add_operand(word, out, is_load ? INSN_READ : INSN_WRITE, bytes);
	m->scale = (uint8_t)(word >> 12 & 1 ? bytes : 1);
	m->index = (uint8_t)rs_of(word);
	m->index_bits = option & 1 ? 64 : 32;
	m->index_signed = option >> 2;
	/* The zero register adds nothing. */
	if (m->index == 31) {
		m->index = INSN_NO_REG;
		m->index_bits = m->scale = m->index_signed = 0;
	}
	use_register(out, word, rt_of(word), is_load);
	return 0;
}

/* ld64b, st64b and its two forms that report a status. */
static int decode_64_bytes(uint32_t word, struct insn *out)
{
	const unsigned int operation = arm64_bits(word, 12, 3);
	const int is_load = operation == 5;

	if (word >> 30 != 3 || arm64_bits(word, 22, 2) || rt_of(word) > 22 || rt_of(word) & 1 ||
	    !(operation == 1 || operation == 2 || operation == 3 || operation == 5) ||
	    ((operation == 1 || operation == 5) && rs_of(word) != 31))
		return -EILSEQ;
	add_operand(word, out, is_load ? INSN_READ : INSN_WRITE, 64);
	for (unsigned int i = 0; i < 8; i++)
		use_register(out, word, rt_of(word) + i, is_load);
	if (operation == 2 || operation == 3)
		out->writes |= arm64_mask(rs_of(word));
	return 0;
}

/* ldadd and kin, swp, ldapr. */
static int decode_atomic(uint32_t word, struct insn *out)
{
	const unsigned int operation = arm64_bits(word, 12, 3);
	const int is_swap = word >> 15 & 1;
	const uint32_t bytes = 1u << (word >> 30);

	if (is_vector(word))
		return -EILSEQ;
	if (is_swap && operation == 4) {
		if (arm64_bits(word, 22, 2) != 2 || rs_of(word) != 31)
			return -EILSEQ;
		add_operand(word, out, INSN_READ, bytes);
		set_order(out, 1, 0);
		use_register(out, word, rt_of(word), 1);
		return 0;
	}
	if (is_swap && operation)
		return decode_64_bytes(word, out);
	add_operand(word, out, INSN_READ_WRITE, bytes);
	out->flags |= INSN_ATOMIC;
	/* Without a destination it is an st form: nothing is acquired. */
	set_order(out, word >> 23 & 1, word >> 22 & 1);
	out->reads |= arm64_mask(rs_of(word));
	out->writes |= arm64_mask(rt_of(word));
	return 0;
}

/* ldraa, ldrab: the base has a signature, so the registers do not show the address. */
static int decode_authenticated(uint32_t word, struct insn *out)
{
	if (word >> 30 != 3 || is_vector(word))
		return -EILSEQ;
	const int64_t offset =
		(arm64_signed_bits(word, 22, 1) * 512 + (int64_t)arm64_bits(word, 12, 9)) * 8;
	struct insn_memory *m = add_operand(word, out, INSN_READ, 8);

	m->displacement = offset;
	m->flags |= INSN_MEM_NOT_COMPUTABLE;
	if (word >> 11 & 1)
		set_writeback(out, m, offset);
	use_register(out, word, rt_of(word), 1);
	return 0;
}

static int decode_one_register(uint32_t word, struct insn *out)
{
	if (word >> 24 & 1)
		return decode_unsigned_offset(word, out);
	if (!(word >> 21 & 1))
		return decode_nine_bits(word, out);
	if (word >> 10 & 1)
		return decode_authenticated(word, out);
	return word >> 11 & 1 ? decode_register_offset(word, out) : decode_atomic(word, out);
}

/* stlur, ldapur. */
static int decode_ordered_unscaled(uint32_t word, struct insn *out)
{
	const unsigned int size = word >> 30;
	const unsigned int operation = arm64_bits(word, 22, 2);

	if (is_vector(word) || (size == 3 && operation >= 2) || (size == 2 && operation == 3))
		return -EILSEQ;
	struct insn_memory *m =
		add_operand(word, out, operation ? INSN_READ : INSN_WRITE, 1u << size);
	m->displacement = arm64_signed_bits(word, 12, 9);
	set_order(out, operation != 0, operation == 0);
	use_register(out, word, rt_of(word), operation != 0);
	return 0;
}

/* cpy*, set*: three instructions in a row copy or fill; how much each does is the machine's. */
static int decode_block(uint32_t word, struct insn *out)
{
	const int is_set = arm64_bits(word, 22, 2) == 3;
	const unsigned int rd = rt_of(word);
	const unsigned int rs = rs_of(word);
	const unsigned int count = rn_of(word);

	if (word >> 30 || rd == 31 || rs == rd || count == rd || count == rs || count == 31 ||
	    (!is_set && rs == 31) || (is_set && arm64_bits(word, 14, 2) == 3))
		return -EILSEQ;
	struct insn_memory *m = add_operand(word, out, INSN_WRITE, 0);
	const uint16_t flags = INSN_MEM_IMPLICIT | INSN_MEM_CONDITIONAL | INSN_MEM_REPEATS |
			       INSN_MEM_SIZE_UNKNOWN | INSN_MEM_NOT_COMPUTABLE;

	m->base = (uint8_t)rd;
	m->flags = flags;
	if (!is_set) {
		m = add_operand(word, out, INSN_READ, 0);
		m->base = (uint8_t)rs;
		m->flags = flags;
	}
	out->kind = INSN_STRING;
	out->flags |= INSN_REPEATS | INSN_READS_FLAGS | INSN_WRITES_FLAGS;
	out->reads = arm64_mask(rd) | arm64_mask(rs) | arm64_mask(count);
	out->writes = arm64_mask(rd) | arm64_mask(count) | (is_set ? 0 : arm64_mask(rs));
	return 0;
}

/* stg and kin move tags; stzg clears memory too. */
static int decode_tags(uint32_t word, struct insn *out)
{
	const unsigned int operation = arm64_bits(word, 22, 2);
	const unsigned int mode = arm64_bits(word, 10, 2);
	const int64_t offset = arm64_signed_bits(word, 12, 9) * 16;
	const int is_load = mode == 0 && (operation & 1);

	if (mode == 0 && operation != 1 && arm64_bits(word, 12, 9))
		return -EILSEQ;
	struct insn_memory *m = add_operand(word, out, is_load ? INSN_READ : INSN_WRITE,
					    mode && operation & 2 ? 32 : 16);
	if (mode == 0 && operation != 1) {
		/* stzgm, stgm, ldgm: a block of unknown size. */
		m->flags |= INSN_MEM_SIZE_UNKNOWN | INSN_MEM_ALIGNED_DOWN;
		m->size = 0;
		out->flags |= INSN_PRIVILEGED;
	}
	if (mode != 1)
		m->displacement = offset;
	if (mode & 1)
		set_writeback(out, m, offset);
	/* Tags alone are not what a watch on memory sees. */
	if (mode ? !(operation & 1) : 1)
		m->flags |= INSN_MEM_CONDITIONAL;
	if (mode == 0)
		use_register(out, word, rt_of(word), is_load);
	else
		out->reads |= arm64_mask_sp(rt_of(word));
	return 0;
}

static void set_structure_writeback(uint32_t word, struct insn *out, struct insn_memory *m)
{
	if (!(word >> 23 & 1))
		return;
	set_writeback(out, m, m->size);
	if (rs_of(word) == 31)
		return;
	/* By a register: how far is not in the instruction. */
	m->writeback = 0;
	m->bit_reg = (uint8_t)rs_of(word);
	out->reads |= arm64_mask(rs_of(word));
	out->flags &= (uint16_t)~INSN_CHANGES_SP;
	out->sp_change = 0;
}

/* ld1 to ld4 of whole registers. */
static int decode_structures(uint32_t word, struct insn *out)
{
	static const uint8_t registers[16] = {
		[0] = 4, [2] = 4, [4] = 3, [6] = 3, [7] = 1, [8] = 2, [10] = 2
	};
	const unsigned int operation = arm64_bits(word, 12, 4);
	const int is_wide = word >> 30 & 1;
	const int is_interleaved = operation == 0 || operation == 4 || operation == 8;

	if (!registers[operation] || word >> 31 || word >> 21 & 1 ||
	    (!(word >> 23 & 1) && rs_of(word)) ||
	    (is_interleaved && !is_wide && arm64_bits(word, 10, 2) == 3))
		return -EILSEQ;
	struct insn_memory *m = add_operand(word, out, word >> 22 & 1 ? INSN_READ : INSN_WRITE,
					    registers[operation] * (is_wide ? 16u : 8u));
	set_structure_writeback(word, out, m);
	out->flags |= INSN_VECTOR;
	return 0;
}

/* Bytes of one element of the single-structure forms; 0: no such instruction. */
static unsigned int element_bytes(uint32_t word)
{
	const unsigned int size = arm64_bits(word, 10, 2);
	const unsigned int s = word >> 12 & 1;

	switch (arm64_bits(word, 14, 2)) {
	case 0:
		return 1;
	case 1:
		return size & 1 ? 0 : 2;
	case 2:
		if (size == 0)
			return 4;
		return size == 1 && !s ? 8 : 0;
	default: /* ld1r and kin: one element to all lanes */
		return word >> 22 & 1 && !s ? 1u << size : 0;
	}
}

/* ld1 to ld4 of one lane, ld1r to ld4r. */
static int decode_single_structure(uint32_t word, struct insn *out)
{
	const unsigned int count = ((word >> 13 & 1) << 1 | (word >> 21 & 1)) + 1;
	const unsigned int bytes = element_bytes(word);

	if (!bytes || word >> 31 || (!(word >> 23 & 1) && rs_of(word)))
		return -EILSEQ;
	struct insn_memory *m =
		add_operand(word, out, word >> 22 & 1 ? INSN_READ : INSN_WRITE, count * bytes);
	set_structure_writeback(word, out, m);
	out->flags |= INSN_VECTOR;
	return 0;
}

/* Bits 29 to 27 are 011: literals, unscaled with order, tags, copies. */
static int decode_mixed(uint32_t word, struct insn *out)
{
	const unsigned int mode = arm64_bits(word, 10, 2);

	if (!(word >> 24 & 1))
		return decode_literal(word, out);
	if (word >> 21 & 1)
		return word >> 30 == 3 && !is_vector(word) ? decode_tags(word, out) : -EILSEQ;
	if (mode == 0)
		return decode_ordered_unscaled(word, out);
	return mode == 1 ? decode_block(word, out) : -EILSEQ;
}

int arm64_decode_memory(uint32_t word, struct insn *out)
{
	switch (arm64_bits(word, 27, 3)) {
	case 1:
		if (!is_vector(word))
			return word >> 24 & 1 ? -EILSEQ : decode_exclusive(word, out);
		return word >> 24 & 1 ? decode_single_structure(word, out) :
					decode_structures(word, out);
	case 3:
		return decode_mixed(word, out);
	case 5:
		return decode_pair(word, out);
	default:
		return decode_one_register(word, out);
	}
}
