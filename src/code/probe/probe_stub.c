/* SPDX-License-Identifier: MIT */
/* probe_stub.c - see probe_stub.h. */
#include "code/probe/probe_stub.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "code/log/code_stream.h"
#include "code/poke/region.h"
#include "code/poke/text.h"
#include "code/probe/probe_form.h"

#define ARENA_BYTES (256u << 10)
#define ARENAS_MAX 256
#define STUB_ALIGN 16u

struct stub_arena {
	uint64_t start;
	uint32_t used;
};
static struct stub_arena arenas[ARENAS_MAX];
static uint32_t arena_count;

static struct stub_arena *stub_arena_near(uint64_t near, const char **why)
{
	for (uint32_t i = 0; i < arena_count; i++) {
		int64_t distance = (int64_t)(arenas[i].start - near);

		if (distance < CODE_REACH && distance > -CODE_REACH &&
		    arenas[i].used + STUB_BYTES_MAX <= ARENA_BYTES)
			return &arenas[i];
	}
	*why = "too many probes have been made";
	if (arena_count == ARENAS_MAX)
		return NULL;
	*why = "no free memory within a jump of the instruction";
	int64_t start = region_find(near, ARENA_BYTES, PROT_READ | PROT_EXEC,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1);
	if (start < 0)
		return NULL;
	arenas[arena_count] = (struct stub_arena){ (uint64_t)start, 0 };
	return &arenas[arena_count++];
}

void draft_add_jump(struct draft *draft, uint64_t to)
{
	uint8_t jump[CODE_JUMP_BYTES];

	code_put_jump(jump, draft->start + draft->length, to);
	draft_add(draft, jump, sizeof(jump));
}

int draft_add_instruction(struct draft *draft, const struct probe_stub_wish *wish, const char **why)
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
	draft_add(draft, copy.bytes, copy.length);
	draft_add_jump(draft, wish->address + wish->len);
	return 0;
}

int probe_stub_make(const struct probe_stub_wish *wish, struct probe_stub *out, const char **why)
{
	struct stub_arena *arena = stub_arena_near(wish->address, why);
	struct draft draft = { 0 };

	if (!arena)
		return -ENOSPC;
	draft.start = arena->start + arena->used;
	int err = probe_form(&draft, wish, out, why);
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
