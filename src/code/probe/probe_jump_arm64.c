/* SPDX-License-Identifier: MIT */
/*
 * probe_jump_arm64.c - see probe_jump.h: a branch instead of one instruction, which is as long.
 *
 * Where a page is guarded, an indirect branch must end on a landing pad, which a branch is not and
 * brk is. With SME a thread may be in a mode in which C cannot run; the kernel leaves it before a
 * signal handler.
 */
#include <errno.h>
#include <string.h>
#include <sys/auxv.h>

#include "code/insn/insn.h"
#include "code/insn/insn_arm64.h"
#include "code/probe/probe_jump.h"
#include "code/step/step_plan.h"

#define HINT_PACIASP 0xd503233fu
#define HINT_PACIBSP 0xd503237fu
#define CAPS_BTI (1ul << 17) /* HWCAP2_BTI */
#define CAPS_SME (1ul << 23) /* HWCAP2_SME */
#define BRANCH_REACH (1ll << 27)

int probe_jump_is_busy(uint64_t address, const uint8_t *text, size_t available)
{
	return trap_is(text);
}

static int is_landing(const uint8_t *text)
{
	const uint32_t word = code_word(text);
	struct insn insn;

	return word == HINT_PACIASP || word == HINT_PACIBSP ||
	       (!insn_decode(text, 4, &insn) && insn.kind == INSN_LANDING);
}

/* In this processor, at this instruction. NULL: nothing is against it. */
static const char *why_not(uint64_t address, const uint8_t *text)
{
	const unsigned long caps = getauxval(AT_HWCAP2);

	if (caps & CAPS_SME)
		return "the processor has SME: a thread may be in a mode that C code cannot run in";
	if (caps & CAPS_BTI && is_landing(text))
		return "indirect branches may end on the instruction, and must find a landing pad";
	if (step_is_in_exclusive(address))
		return "the instruction is between an exclusive load and its store";
	return NULL;
}

int probe_jump_make(uint64_t address, const uint8_t *text, size_t available, uint64_t target,
		    int may_crowd, struct probe_jump *out, const char **why)
{
	const int64_t distance = (int64_t)(target - address);

	*why = why_not(address, text);
	if (*why)
		return -EOPNOTSUPP;
	*why = "no free memory within 128 MiB of the instruction";
	if (distance >= BRANCH_REACH || distance < -BRANCH_REACH)
		return -ENOSPC;
	*out = (struct probe_jump){ .len = CODE_JUMP_BYTES };
	memcpy(out->before, text, CODE_JUMP_BYTES);
	code_put_jump(out->after, address, target);
	return 0;
}
