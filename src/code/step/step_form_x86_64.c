/* SPDX-License-Identifier: MIT */
/*
 * step_form_x86_64.c - how a thread gets past one instruction: see step_form.h.
 *
 * What changes the pc is emulated: its copy elsewhere would mean something else.
 */
#include <errno.h>
#include <string.h>

#include "base/sys.h"
#include "code/insn/insn.h"
#include "code/step/step_form.h"
#include "code/step/step_plan.h"

#define NO_REG INSN_NO_REG
#define ARCH_SHSTK_STATUS 0x5005

static int32_t read_i32(const uint8_t *bytes)
{
	int32_t value;

	memcpy(&value, bytes, sizeof(value));
	return value;
}

static inline int plan_to(uint64_t address, struct step *out, uint8_t kind, uint8_t length,
			  int64_t distance)
{
	out->kind = kind;
	out->length = length;
	out->target = address + length + (uint64_t)distance;
	return length;
}

/*
 * The instructions that patching is made of, without the decoder: a batch of a thousand sites
 * would spend more time there than in writing. Length, or 0: ask the decoder.
 */
static int plan_common(uint64_t address, const uint8_t *bytes, size_t len, struct step *out)
{
	if (bytes[0] == 0x90)
		return plan_to(address, out, STEP_JUMP, 1, 0);
	if (bytes[0] == 0xc3)
		return plan_to(address, out, STEP_RETURN, 1, 0);
	if (len < 2)
		return 0;
	if (bytes[0] == 0x66 && bytes[1] == 0x90)
		return plan_to(address, out, STEP_JUMP, 2, 0);
	if (bytes[0] == 0xeb)
		return plan_to(address, out, STEP_JUMP, 2, (int8_t)bytes[1]);
	if (bytes[0] >> 4 == 7) {
		out->condition = bytes[0] & 15;
		return plan_to(address, out, STEP_CONDITIONAL, 2, (int8_t)bytes[1]);
	}
	if (len < 5)
		return 0;
	if (bytes[0] == 0xe9)
		return plan_to(address, out, STEP_JUMP, 5, read_i32(bytes + 1));
	if (bytes[0] == 0xe8)
		return plan_to(address, out, STEP_CALL, 5, read_i32(bytes + 1));
	if (bytes[0] == 0x0f && bytes[1] == 0x1f && bytes[2] == 0x44 && (bytes[3] & 7) != 5)
		return plan_to(address, out, STEP_JUMP, 5, 0);
	if (len < 6 || bytes[0] != 0x0f || bytes[1] >> 4 != 8)
		return 0;
	out->condition = bytes[1] & 15;
	return plan_to(address, out, STEP_CONDITIONAL, 6, read_i32(bytes + 2));
}

static int plan_conditional(const struct insn *insn, struct step *out)
{
	out->kind = STEP_CONDITIONAL;
	out->condition = insn->condition;
	/* loop and jrcxz by ecx, with prefix 67. */
	if (insn->condition > 15 && insn->opcode_at > 0)
		return -EOPNOTSUPP;
	if (insn->condition > INSN_CONDITION_RCXZ)
		return -EOPNOTSUPP;
	return 0;
}

static int plan_indirect(const struct insn *insn, uint64_t address, struct step *out)
{
	const struct insn_memory *memory = NULL;
	int is_call = insn->kind == INSN_CALL_INDIRECT;

	if (insn->target_reg != NO_REG) {
		out->kind = is_call ? STEP_CALL_REG : STEP_JUMP_REG;
		out->base = insn->target_reg;
		return 0;
	}
	for (unsigned int i = 0; i < insn->memory_count; i++)
		if (!(insn->memory[i].flags & INSN_MEM_IMPLICIT))
			memory = &insn->memory[i];
	if (!memory || memory->segment || memory->flags || memory->size != 8)
		return -EOPNOTSUPP;
	out->kind = is_call ? STEP_CALL_MEMORY : STEP_JUMP_MEMORY;
	out->base = memory->base;
	out->index = memory->index;
	out->scale = memory->scale;
	out->target = (uint64_t)memory->displacement;
	if (memory->base == INSN_RIP) {
		out->base = NO_REG;
		out->target += address;
	}
	return 0;
}

static int plan_return(const uint8_t *bytes, const struct insn *insn, struct step *out)
{
	out->kind = STEP_RETURN;
	if (insn->immediate_bytes == 2)
		memcpy(&out->imm, bytes + insn->immediate_at, 2);
	return 0;
}

/* What changes the pc, or nothing but the pc. 1: something else, to be copied. */
static int plan_flow(uint64_t address, const uint8_t *bytes, const struct insn *insn,
		     struct step *out)
{
	if (insn->flags & (INSN_FAR | INSN_PRIVILEGED))
		return -EOPNOTSUPP;
	if (step_form_simple(address, insn, out))
		return 0;
	switch (insn->kind) {
	case INSN_JUMP_CONDITIONAL:
		return plan_conditional(insn, out);
	case INSN_JUMP_INDIRECT:
	case INSN_CALL_INDIRECT:
		return plan_indirect(insn, address, out);
	case INSN_RETURN:
		return plan_return(bytes, insn, out);
	case INSN_TRAP:
		out->kind = STEP_AGAIN;
		return 0;
	default:
		return insn->flags & INSN_NOT_RELOCATABLE ? -EOPNOTSUPP : 1;
	}
}

int step_form(uint64_t address, const uint8_t *bytes, size_t len, struct step *out,
	      const char **why)
{
	struct insn insn;
	int length = plan_common(address, bytes, len, out);

	if (length)
		return length;
	int err = insn_decode(bytes, len, &insn);
	if (err) {
		*why = "no instruction, or one that is longer than the site";
		return -EINVAL;
	}
	err = plan_flow(address, bytes, &insn, out);
	if (err < 0) {
		*why = "the instruction can neither be emulated nor run elsewhere";
		return err;
	}
	return insn.length;
}

int step_length(const uint8_t *bytes, size_t available)
{
	struct step step = { .kind = STEP_NONE };
	int length = plan_common(0, bytes, available, &step);

	return length ? length : insn_length_x86_64(bytes, available);
}

int step_is_in_exclusive(uint64_t address)
{
	return 0;
}

/* An emulated call pushes nothing on a shadow stack: the return would fault. */
int step_has_shadow_stack(void)
{
	static int known; /* 1: no, 2: yes */
	uint64_t features = 0;

	if (!known) {
		long err = sys2(SYS_arch_prctl, ARCH_SHSTK_STATUS, &features);
		known = !err && features & 1 ? 2 : 1;
	}
	return known == 2;
}
