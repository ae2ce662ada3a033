/* SPDX-License-Identifier: MIT */
/* relocate_arm64.c - see relocate.h. */
#include <errno.h>
#include <string.h>

#include "code/insn/insn_arm64.h"
#include "code/insn/relocate.h"

#define ARM64_NOP 0xd503201fu
#define ARM64_B 0x14000000u
#define ARM64_BR 0xd61f0000u
#define ARM64_MOVZ 0xd2800000u
#define ARM64_MOVK 0xf2800000u

/* One copy being made. */
struct copy {
	const struct insn *insn;
	uint32_t word;
	uint64_t from;
	uint64_t to;
	struct insn_copy *out;
	const char **reason;
};

static int refuse(const struct copy *c, int err, const char *reason)
{
	if (c->reason)
		*c->reason = reason;
	return err;
}

static void append(struct insn_copy *out, uint32_t word)
{
	memcpy(out->bytes + out->length, &word, sizeof(word));
	out->length = (uint8_t)(out->length + sizeof(word));
}

/* Four instructions, always: no flag, no memory. */
static void append_constant(struct insn_copy *out, unsigned int reg, uint64_t value)
{
	append(out, ARM64_MOVZ | (uint32_t)(value & 0xffff) << 5 | reg);
	for (unsigned int part = 1; part < 4; part++)
		append(out, ARM64_MOVK | part << 21 | (uint32_t)(value >> part * 16 & 0xffff) << 5 |
				    reg);
}

/* Does distance fit into a field of bits that counts words? */
static int fits(int64_t distance, unsigned int bits)
{
	const int64_t reach = (int64_t)4 << (bits - 1);

	return distance >= -reach && distance < reach;
}

static int append_jump(const struct copy *c, uint64_t target)
{
	const int64_t distance = (int64_t)(target - (c->to + c->out->length));

	if (!fits(distance, 26))
		return refuse(c, -ERANGE, "the target is more than 128 MB from the copy");
	append(c->out, ARM64_B | ((uint32_t)(distance / 4) & 0x3ffffff));
	return 0;
}

/* b.cond, cbz and cbnz have 19 bits from bit 5 on, tbz and tbnz 14. */
static int copy_conditional(const struct copy *c, uint64_t target)
{
	const unsigned int bits = c->insn->condition == INSN_CONDITION_TBZ ||
						  c->insn->condition == INSN_CONDITION_TBNZ ?
					  14 :
					  19;
	const uint32_t field = ((1u << bits) - 1) << 5;
	const int64_t distance = (int64_t)(target - c->to);

	if (fits(distance, bits)) {
		c->out->kind = INSN_COPY_CORRECTED;
		append(c->out, (c->word & ~field) | ((uint32_t)(distance / 4) << 5 & field));
		return 0;
	}
	/* Taken: over a jump behind the copy to the long jump. */
	c->out->kind = INSN_COPY_REPLACED;
	append(c->out, (c->word & ~field) | 2u << 5);
	append(c->out, ARM64_B | 2);
	return append_jump(c, target);
}

static int copy_branch(const struct copy *c)
{
	const uint64_t target = c->from + (uint64_t)c->insn->target;

	if (c->insn->kind == INSN_JUMP_CONDITIONAL)
		return copy_conditional(c, target);
	c->out->kind = INSN_COPY_CORRECTED;
	if (c->insn->kind == INSN_CALL) {
		c->out->kind = INSN_COPY_REPLACED;
		append_constant(c->out, INSN_ARM64_LR, c->from + 4);
	}
	return append_jump(c, target);
}

static int copy_indirect_call(const struct copy *c)
{
	if (arm64_bits(c->word, 10, 6) || c->insn->target_reg == INSN_ARM64_LR)
		return refuse(c, -EOPNOTSUPP, "a call with authentication or by the link register");
	c->out->kind = INSN_COPY_REPLACED;
	append_constant(c->out, INSN_ARM64_LR, c->from + 4);
	append(c->out, ARM64_BR | (uint32_t)c->insn->target_reg << 5);
	return 0;
}

/* adr and adrp become the address; a load goes through its own register. */
static int copy_pc_relative(const struct copy *c)
{
	static const uint32_t loads[] = { 0xb9400000, 0xf9400000, 0xb9800000 };
	const unsigned int reg = arm64_bits(c->word, 0, 5);
	const int is_address = arm64_is(c->word, 0x1f000000, 0x10000000);
	const uint64_t base = is_address && c->word >> 31 ? c->from & ~0xfffull : c->from;

	c->out->kind = INSN_COPY_REPLACED;
	if (c->insn->flags & INSN_HINT || (is_address && reg == 31)) {
		append(c->out, ARM64_NOP);
		return 0;
	}
	if (!is_address && (c->insn->flags & INSN_VECTOR || reg == 31))
		return refuse(c, -EOPNOTSUPP, "a load that has no register for its address");
	append_constant(c->out, reg, base + (uint64_t)c->insn->target);
	if (!is_address)
		append(c->out, loads[c->word >> 30] | reg << 5 | reg);
	return 0;
}

static int make_copy(const struct copy *c)
{
	if (c->insn->flags & INSN_NOT_RELOCATABLE)
		return refuse(c, -EOPNOTSUPP, "an instruction that keeps its address");
	if (c->insn->kind == INSN_TRAP)
		return refuse(c, -EOPNOTSUPP, "a trap reports its own address");
	if (c->insn->flags & INSN_EXCLUSIVE)
		return refuse(c, -EOPNOTSUPP, "an exclusive access fails after any trap before it");
	if (c->insn->flags & INSN_RELATIVE_BRANCH)
		return copy_branch(c);
	if (c->insn->kind == INSN_CALL_INDIRECT)
		return copy_indirect_call(c);
	if (c->insn->flags & INSN_PC_RELATIVE)
		return copy_pc_relative(c);
	append(c->out, c->word);
	c->out->kind = INSN_COPY_SAME;
	return 0;
}

int insn_relocate_arm64(const struct insn *insn, const void *bytes, uint64_t from, uint64_t to,
			struct insn_copy *out, const char **reason)
{
	struct insn_copy made = { 0 };
	struct copy c = { .insn = insn, .from = from, .to = to, .out = &made, .reason = reason };

	memcpy(&c.word, bytes, sizeof(c.word));
	const int err = make_copy(&c);
	if (!err)
		*out = made;
	return err;
}
