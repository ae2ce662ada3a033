/* SPDX-License-Identifier: MIT */
/* relocate_x86_64.c - see relocate.h. Both copies are executed by tests/unit/test_relocate.c. */
#include <errno.h>
#include <string.h>

#include "code/insn/insn_x86_64.h"
#include "code/insn/relocate.h"

/* One copy being made. */
struct copy {
	const struct insn *insn;
	const uint8_t *bytes;
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

static void append(struct insn_copy *out, const void *bytes, size_t n)
{
	memcpy(out->bytes + out->length, bytes, n);
	out->length = (uint8_t)(out->length + n);
}

static void append_byte(struct insn_copy *out, uint8_t byte)
{
	append(out, &byte, 1);
}

/* The 4 bytes that name target from behind them. */
static int append_distance(const struct copy *c, uint64_t target)
{
	const int64_t distance = (int64_t)(target - (c->to + c->out->length + 4));
	const int32_t field = (int32_t)distance;

	if (field != distance)
		return refuse(c, -ERANGE, "the target is more than 2 GB from the copy");
	append(c->out, &field, 4);
	return 0;
}

static int append_jump(const struct copy *c, uint64_t target)
{
	append_byte(c->out, 0xe9);
	return append_distance(c, target);
}

/* pushes value without touching a flag or a register: its lower half sign-extended, then the
 * upper half over it. */
static void append_push(struct insn_copy *out, uint64_t value)
{
	static const uint8_t store_upper[] = { 0xc7, 0x44, 0x24, 0x04 };
	const uint32_t low = (uint32_t)value;
	const uint32_t high = (uint32_t)(value >> 32);

	append_byte(out, 0x68);
	append(out, &low, 4);
	append(out, store_upper, sizeof(store_upper));
	append(out, &high, 4);
}

/* loop and jrcxz reach 127 bytes only: over a short jump to a long one. */
static int copy_counted_jump(const struct copy *c, uint64_t target)
{
	const struct insn *insn = c->insn;

	append(c->out, c->bytes, insn->length);
	c->out->bytes[insn->length - 1] = 2;
	append_byte(c->out, 0xeb);
	append_byte(c->out, 5);
	return append_jump(c, target);
}

static int copy_branch(const struct copy *c)
{
	const struct insn *insn = c->insn;
	const uint64_t target = c->from + (uint64_t)insn->target;

	c->out->kind = insn->immediate_bytes == 4 && insn->kind != INSN_CALL ? INSN_COPY_CORRECTED :
									       INSN_COPY_REPLACED;
	switch (insn->kind) {
	case INSN_JUMP:
		return append_jump(c, target);
	case INSN_JUMP_CONDITIONAL:
		if (insn->condition >= INSN_CONDITION_LOOPNE)
			return copy_counted_jump(c, target);
		append_byte(c->out, 0x0f);
		append_byte(c->out, 0x80 | insn->condition);
		return append_distance(c, target);
	case INSN_CALL:
		append_push(c->out, c->from + insn->length);
		return append_jump(c, target);
	default:
		return refuse(c, -EOPNOTSUPP, "a relative branch of an unknown kind");
	}
}

static int copy_pc_relative(const struct copy *c)
{
	const struct insn *insn = c->insn;
	const int64_t distance = insn->target + (int64_t)(c->from - c->to);
	/* The field counts from behind the instruction, target from its start. */
	const int64_t wanted = distance - insn->length;
	const int32_t field = (int32_t)wanted;

	if (insn->address_bytes != 8)
		return refuse(c, -EOPNOTSUPP, "a 32-bit address relative to the pc");
	if (insn->displacement_bytes != 4)
		return refuse(c, -EOPNOTSUPP, "an operand relative to the pc of unknown form");
	if (field != wanted)
		return refuse(c, -ERANGE, "its operand is more than 2 GB from the copy");
	append(c->out, c->bytes, insn->length);
	memcpy(c->out->bytes + insn->displacement_at, &field, 4);
	c->out->kind = INSN_COPY_CORRECTED;
	return 0;
}

/*
 * call *X becomes push, jmp *X. The push is first, as the processor's is after it has read X, so X
 * must not depend on the stack pointer. If X is relative to the pc, it is corrected after the push.
 */
static int copy_indirect_call(const struct copy *c)
{
	const struct insn *insn = c->insn;

	if (insn->reads & 1ull << INSN_RSP &&
	    (insn->target_reg == INSN_RSP ||
	     (insn->target_reg == INSN_NO_REG && insn->memory[0].base == INSN_RSP)))
		return refuse(c, -EOPNOTSUPP, "a call whose target depends on the stack pointer");

	append_push(c->out, c->from + insn->length);
	const unsigned int at = c->out->length;
	append(c->out, c->bytes, insn->length);
	/* ff /2 is the call, ff /4 the jump. */
	uint8_t *modrm = &c->out->bytes[at + insn->modrm_at];
	*modrm = (uint8_t)((*modrm & ~0x38) | 4 << 3);
	c->out->kind = INSN_COPY_REPLACED;
	if (!(insn->flags & INSN_PC_RELATIVE))
		return 0;

	const int64_t wanted =
		(int64_t)(c->from + (uint64_t)insn->target - (c->to + c->out->length));
	const int32_t field = (int32_t)wanted;
	if (insn->address_bytes != 8 || insn->displacement_bytes != 4)
		return refuse(c, -EOPNOTSUPP, "an operand relative to the pc of unknown form");
	if (field != wanted)
		return refuse(c, -ERANGE, "its operand is more than 2 GB from the copy");
	memcpy(c->out->bytes + at + insn->displacement_at, &field, 4);
	return 0;
}

static const char *never_copied(const struct insn *insn)
{
	if (insn->flags & INSN_NOT_RELOCATABLE)
		return "an instruction that differs between processors or keeps its address";
	if (insn->kind == INSN_TRAP)
		return "a trap reports its own address";
	if (insn->flags & INSN_FAR && insn->kind != INSN_RETURN)
		return "a far branch";
	return NULL;
}

static int make_copy(const struct copy *c)
{
	const char *never = never_copied(c->insn);

	if (never)
		return refuse(c, -EOPNOTSUPP, never);
	if (c->insn->kind == INSN_CALL_INDIRECT)
		return copy_indirect_call(c);
	if (c->insn->flags & INSN_RELATIVE_BRANCH)
		return copy_branch(c);
	if (c->insn->flags & INSN_PC_RELATIVE)
		return copy_pc_relative(c);
	append(c->out, c->bytes, c->insn->length);
	c->out->kind = INSN_COPY_SAME;
	return 0;
}

int insn_relocate_x86_64(const struct insn *insn, const void *bytes, uint64_t from, uint64_t to,
			 struct insn_copy *out, const char **reason)
{
	struct insn_copy made = { 0 };
	const struct copy c = { insn, bytes, from, to, &made, reason };
	const int err = make_copy(&c);

	if (!err)
		*out = made;
	return err;
}
