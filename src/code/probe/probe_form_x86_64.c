/* SPDX-License-Identifier: MIT */
/* probe_form_x86_64.c - see probe_form.h: the filter, the instruction, the way to the entry. */
#include <errno.h>
#include <string.h>

#include "code/probe/probe_form.h"

#define RED_ZONE 0x80
#define JUMP_LENGTH 5

/*
 * lea -128(%rsp), %rsp; push $number; call *entry(%rip); lea 136(%rsp), %rsp; and on. No flag
 * changes.
 *
 * By a call: most threads come back here, and a return that has no call costs more than all before
 * it.
 */
static void add_true(struct draft *draft, const struct probe_stub_wish *wish, uint64_t resume)
{
	static const uint8_t back[] = { 0x48, 0x8d, 0xa4, 0x24, RED_ZONE + 8, 0, 0, 0 };
	static const uint8_t skip_red_zone[] = { 0x48, 0x8d, 0x64, 0x24, 0x100 - RED_ZONE };
	static const uint8_t call[] = { 0xff, 0x15, sizeof(back) + JUMP_LENGTH, 0, 0, 0 };
	uint64_t entry = (uintptr_t)wish->entry;
	uint8_t push[5] = { 0x68 };

	memcpy(push + 1, &wish->number, 4);
	draft_add(draft, skip_red_zone, sizeof(skip_red_zone));
	draft_add(draft, push, sizeof(push));
	draft_add(draft, call, sizeof(call));
	draft_add(draft, back, sizeof(back));
	draft_add_jump(draft, resume);
	draft_add(draft, &entry, sizeof(entry));
}

static void set_true_jump(struct draft *draft, uint32_t at, uint32_t to)
{
	uint32_t distance = to - (at + 4);

	memcpy(draft->bytes + at, &distance, sizeof(distance));
}

/* jmp *word(%rip) */
static int add_jump_through(struct draft *draft, const uint64_t *word, const char **why)
{
	int64_t distance = (int64_t)((uintptr_t)word - (draft->start + draft->length + 6));
	int32_t near = (int32_t)distance;
	uint8_t jump[6] = { 0xff, 0x25 };

	*why = "the word of a patch is too far from its code";
	if (near != distance)
		return -ENOSPC;
	memcpy(jump + 2, &near, sizeof(near));
	draft_add(draft, jump, sizeof(jump));
	return 0;
}

/* Without a filter the way in is what is at its end else: "true". */
int probe_form(struct draft *draft, const struct probe_stub_wish *wish, struct probe_stub *out,
	       const char **why)
{
	const struct code_filter *filter = wish->filter;
	uint32_t true_at = filter->length ? filter->true_at : 1;

	if (filter->length > FILTER_BYTES_MAX)
		return -EOPNOTSUPP;
	int err = 0;

	if (filter->through)
		err = add_jump_through(draft, filter->through, why);
	else if (filter->length)
		draft_add(draft, filter->bytes, filter->length);
	else
		draft_add_jump(draft, 0);
	out->start = draft->start;
	out->resume = draft->start + draft->length;
	if (!err)
		err = draft_add_instruction(draft, wish, why);
	if (err)
		return err;
	if (!filter->through)
		set_true_jump(draft, true_at, draft->length);
	out->when_true = draft->start + draft->length;
	add_true(draft, wish, out->resume);
	return 0;
}
