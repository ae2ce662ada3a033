/* SPDX-License-Identifier: MIT */
/*
 * probe_form_arm64.c - see probe_form.h: the frame, the way to the entry and back, the instruction.
 *
 * The interpreter decides conditions: there is no filter.
 */
#include <errno.h>
#include <string.h>

#include "code/probe/probe_form.h"
#include "code/probe/probe_frame_arm64.h"

#define X16_X17(op) ((op) | PROBE_FRAME_X16 / 8 << 15 | 17 << 10 | 31 << 5 | 16)
#define STP_IN_FRAME X16_X17(0xa9000000u)
#define LDP_IN_FRAME X16_X17(0xa9400000u)
#define SUB_FRAME (0xd1000000u | PROBE_FRAME_BYTES << 10 | 31 << 5 | 31)
#define ADD_FRAME (0x91000000u | PROBE_FRAME_BYTES << 10 | 31 << 5 | 31)
#define MOVZ_W16 0x52800010u
#define LDR_X17_LITERAL 0x58000011u
#define ADRP_X17 0x90000011u
#define LDR_X17_X17 0xf9400231u
#define BR_X17 0xd61f0220u

_Static_assert(CODE_PROBES_MAX <= 1u << 16, "a number is one instruction");

static void add_word(struct draft *draft, uint32_t word)
{
	draft_add(draft, &word, sizeof(word));
}

/* By x17, which is free at the entry of a function: linkers use it before. */
static int add_jump_through(struct draft *draft, const uint64_t *word, const char **why)
{
	const uint64_t from = draft->start + draft->length;
	const uint64_t to = (uintptr_t)word;
	const int64_t pages = (int64_t)((to >> 12) - (from >> 12));
	const uint32_t field = (uint32_t)pages;

	*why = "the word of a patch is too far from its code";
	if (pages >= 1 << 20 || pages < -(1 << 20))
		return -ENOSPC;
	add_word(draft, ADRP_X17 | (field & 3) << 29 | (field >> 2 & 0x7ffff) << 5);
	add_word(draft, LDR_X17_X17 | (uint32_t)((to & 0xfff) / 8) << 10);
	add_word(draft, BR_X17);
	return 0;
}

/* In front of the stub: the address of the entry. */
static void add_true(struct draft *draft, const struct probe_stub_wish *wish)
{
	const uint32_t at = draft->length + 12;

	add_word(draft, SUB_FRAME);
	add_word(draft, STP_IN_FRAME);
	add_word(draft, MOVZ_W16 | wish->number << 5);
	add_word(draft, LDR_X17_LITERAL | ((0u - at / 4) & 0x7ffff) << 5);
	add_word(draft, BR_X17);
	add_word(draft, LDP_IN_FRAME);
	add_word(draft, ADD_FRAME);
}

int probe_form(struct draft *draft, const struct probe_stub_wish *wish, struct probe_stub *out,
	       const char **why)
{
	const uint64_t entry = (uintptr_t)wish->entry;
	int err = 0;

	*why = "machine code of a condition";
	if (wish->filter->length)
		return -EOPNOTSUPP;
	draft_add(draft, &entry, sizeof(entry));
	out->start = draft->start + draft->length;
	if (wish->filter->through)
		err = add_jump_through(draft, wish->filter->through, why);
	if (err)
		return err;
	out->when_true = draft->start + draft->length;
	add_true(draft, wish);
	out->resume = draft->start + draft->length;
	return draft_add_instruction(draft, wish, why);
}
