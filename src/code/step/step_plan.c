/* SPDX-License-Identifier: MIT */
/*
 * step_plan.c - how a thread gets past an instruction that a trap is on.
 *
 * step_form() knows what can be emulated. All the rest is copied to a slot with a jump behind it;
 * the thread is sent there and needs no return.
 */
#include <errno.h>

#include "code/insn/insn.h"
#include "code/poke/slot.h"
#include "code/step/step.h"
#include "code/step/step_form.h"
#include "code/step/step_plan.h"

#define NO_REG INSN_NO_REG

const char step_why_several[] =
	"the expected bytes are not exactly one instruction: a thread may be between them "
	"(TRAPLINE_POKE_QUIESCENT)";

static int is_call(const struct step *step)
{
	return step->kind == STEP_CALL || step->kind == STEP_CALL_REG ||
	       step->kind == STEP_CALL_MEMORY;
}

static int never_falls_through(uint64_t address, const struct step *step)
{
	switch (step->kind) {
	case STEP_JUMP:
		return !step->is_copy && step->target != address + step->length;
	case STEP_RETURN:
	case STEP_JUMP_REG:
	case STEP_JUMP_MEMORY:
	case STEP_AGAIN:
		return 1;
	default:
		return 0;
	}
}

/* All of them into one slot: a thread that is sent there comes back behind the last. */
static int plan_copy(uint64_t address, const uint8_t *bytes, size_t len, struct step *out,
		     const char **why)
{
	uint64_t slot;
	int err = slot_copy(address, bytes, len, &slot, why);

	if (err)
		return err;
	out->kind = STEP_JUMP;
	out->is_copy = 1;
	out->target = slot;
	return 0;
}

int step_is_one(uint64_t address, const uint8_t *bytes, size_t len)
{
	struct step step = { .kind = STEP_NONE };
	const char *why;
	int length = step_form(address, bytes, len, &step, &why);

	/* What cannot be passed under a trap may be here all the same. */
	if (length < 0)
		length = step_length(bytes, len);
	return length == (int)len || (length > 0 && never_falls_through(address, &step));
}

int step_plan(uint64_t address, const uint8_t *bytes, size_t len, enum step_rule rule,
	      struct step *out, const char **why)
{
	*out = (struct step){ .base = NO_REG, .index = NO_REG };
	if (rule == STEP_UNASKED) {
		out->kind = STEP_AGAIN;
		return 0;
	}
	int length = step_form(address, bytes, len, out, why);
	if (length < 0)
		return length;
	if (is_call(out) && step_has_shadow_stack()) {
		*why = "a call cannot be emulated with a shadow stack";
		return -EOPNOTSUPP;
	}
	if ((size_t)length == len)
		return out->kind ? 0 : plan_copy(address, bytes, len, out, why);
	if (never_falls_through(address, out))
		return 0;
	if (rule == STEP_ONE) {
		*why = step_why_several;
		return -EINVAL;
	}
	return plan_copy(address, bytes, len, out, why);
}
