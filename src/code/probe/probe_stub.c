/* SPDX-License-Identifier: MIT */
/* probe_stub.c - see probe_stub.h. */
#include "code/probe/probe_stub.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "code/insn/relocate.h"
#include "code/log/code_stream.h"
#include "code/poke/region.h"
#include "code/poke/text.h"

#define ARENA_BYTES (256u << 10)
#define ARENAS_MAX 256
#define REACH 0x70000000ll
#define STUB_ALIGN 16u
#define FILTER_BYTES_MAX 2048u
#define STUB_BYTES_MAX (FILTER_BYTES_MAX + INSN_COPY_MAX + 64)
#define RED_ZONE 0x80
#define JUMP_LENGTH 5

struct stub_arena {
	uint64_t start;
	uint32_t used;
};
static struct stub_arena arenas[ARENAS_MAX];
static uint32_t arena_count;

/* A stub as it is written, before it is put where it belongs. */
struct draft {
	uint64_t start;
	uint32_t length;
	uint8_t bytes[STUB_BYTES_MAX];
};

static struct stub_arena *stub_arena_near(uint64_t near, const char **why)
{
	for (uint32_t i = 0; i < arena_count; i++) {
		int64_t distance = (int64_t)(arenas[i].start - near);

		if (distance < REACH && distance > -REACH &&
		    arenas[i].used + STUB_BYTES_MAX <= ARENA_BYTES)
			return &arenas[i];
	}
	*why = "too many probes have been made";
	if (arena_count == ARENAS_MAX)
		return NULL;
	*why = "no free memory within 2 GiB of the instruction";
	int64_t start = region_find(near, ARENA_BYTES, PROT_READ | PROT_EXEC,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1);
	if (start < 0)
		return NULL;
	arenas[arena_count] = (struct stub_arena){ (uint64_t)start, 0 };
	return &arenas[arena_count++];
}

static void add(struct draft *draft, const void *bytes, uint32_t n)
{
	memcpy(draft->bytes + draft->length, bytes, n);
	draft->length += n;
}

static void add_jump(struct draft *draft, uint64_t to)
{
	int32_t distance = (int32_t)(to - (draft->start + draft->length + JUMP_LENGTH));
	uint8_t jump[JUMP_LENGTH] = { 0xe9 };

	memcpy(jump + 1, &distance, sizeof(distance));
	add(draft, jump, sizeof(jump));
}

/* A call goes its own way: it has the original's return address already. */
static int add_instruction(struct draft *draft, const struct probe_stub_wish *wish,
			   const char **why)
{
	struct insn_copy copy;
	struct insn insn;

	*why = "the instruction cannot run elsewhere";
	if (insn_decode(wish->text, wish->len, &insn) || insn.kind == INSN_TRAP)
		return -EOPNOTSUPP;
	int err = insn_relocate(&insn, wish->text, wish->address, draft->start + draft->length,
				&copy, why);
	if (err)
		return -EOPNOTSUPP;
	add(draft, copy.bytes, copy.length);
	add_jump(draft, wish->address + wish->len);
	return 0;
}

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
	add(draft, skip_red_zone, sizeof(skip_red_zone));
	add(draft, push, sizeof(push));
	add(draft, call, sizeof(call));
	add(draft, back, sizeof(back));
	add_jump(draft, resume);
	add(draft, &entry, sizeof(entry));
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
	add(draft, jump, sizeof(jump));
	return 0;
}

/* Without a filter the way in is what is at its end else: "true". */
static int write_draft(struct draft *draft, const struct probe_stub_wish *wish,
		       struct probe_stub *out, const char **why)
{
	const struct code_filter *filter = wish->filter;
	uint32_t true_at = filter->length ? filter->true_at : 1;

	if (filter->length > FILTER_BYTES_MAX)
		return -EOPNOTSUPP;
	int err = 0;

	if (filter->through)
		err = add_jump_through(draft, filter->through, why);
	else if (filter->length)
		add(draft, filter->bytes, filter->length);
	else
		add_jump(draft, 0);
	out->start = draft->start;
	out->resume = draft->start + draft->length;
	if (!err)
		err = add_instruction(draft, wish, why);
	if (err)
		return err;
	if (!filter->through)
		set_true_jump(draft, true_at, draft->length);
	out->when_true = draft->start + draft->length;
	add_true(draft, wish, out->resume);
	return 0;
}

int probe_stub_make(const struct probe_stub_wish *wish, struct probe_stub *out, const char **why)
{
	struct stub_arena *arena = stub_arena_near(wish->address, why);
	struct draft draft = { 0 };

	if (!arena)
		return -ENOSPC;
	draft.start = arena->start + arena->used;
	int err = write_draft(&draft, wish, out, why);
	if (err)
		return err;
	*why = "the code of a probe cannot be written: neither /proc/thread-self/mem nor "
	       "mprotect() work here";
	struct code_fresh fresh = {
		.begin_ns = clock_now_ns(),
		.address = draft.start,
		.bytes = draft.bytes,
		.len = draft.length,
		.origin = wish->address,
		.pairs = { { (uint32_t)(out->resume - draft.start), wish->address } },
		.pair_count = 1,
	};
	if (text_write_fresh(draft.start, draft.bytes, draft.length))
		return -EACCES;
	code_stream_slot(&fresh);
	arena->used += (draft.length + STUB_ALIGN - 1) & ~(STUB_ALIGN - 1);
	return 0;
}
