/* SPDX-License-Identifier: MIT */
/*
 * slot.c - copies of instructions that threads are sent to.
 *
 * A thread may be in a slot, asleep or preempted, for as long as it likes, so slots are never
 * freed and never get other contents. Instead a slot is found again when the same bytes at the
 * same address are asked for: traps that come and go cost no memory.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/memory.h"
#include "code/insn/relocate.h"
#include "code/log/code_stream.h"
#include "code/poke/poke_view.h"
#include "code/poke/region.h"
#include "code/poke/slot.h"
#include "code/poke/slot_origin.h"
#include "code/poke/text.h"

#define ARENA_BYTES SLOT_ARENA_BYTES
#define ARENA_MAX SLOT_ARENAS

struct slot {
	uint64_t address; /* of the original; 0: free */
	uint64_t slot;
	uint8_t len;
	uint8_t bytes[SITE_MAX];
};
static struct slot *known;
static size_t known_mask; /* entries - 1; a power of two, at most half used */
static size_t known_count;

static size_t slot_place_of(uint64_t address, const struct slot *table, size_t mask)
{
	size_t at = (address * HASH_MIX >> 24) & mask;

	while (table[at].address && table[at].address != address)
		at = (at + 1) & mask;
	return at;
}

static int is_same(const struct slot *slot, uint64_t address, const uint8_t *bytes, size_t len)
{
	return slot->address == address && slot->len == len && !memcmp(slot->bytes, bytes, len);
}

/* Several may have the same address with other bytes: they follow each other. */
static struct slot *find(uint64_t address, const uint8_t *bytes, size_t len)
{
	size_t at = slot_place_of(address, known, known_mask);

	for (; known[at].address; at = (at + 1) & known_mask)
		if (is_same(&known[at], address, bytes, len))
			break;
	return &known[at];
}

static int grow(void)
{
	size_t entries = known ? (known_mask + 1) * 2 : 1024;

	if (known && known_count * 2 < known_mask + 1)
		return 0;
	struct slot *larger = memory_map(entries * sizeof(*larger));
	if (memory_failed(larger))
		return -ENOMEM;
	for (size_t i = 0; known && i <= known_mask; i++) {
		if (!known[i].address)
			continue;
		size_t at = slot_place_of(known[i].address, larger, entries - 1);
		while (larger[at].address)
			at = (at + 1) & (entries - 1);
		larger[at] = known[i];
	}
	if (known)
		memory_unmap(known, (known_mask + 1) * sizeof(*known));
	known = larger;
	known_mask = entries - 1;
	return 0;
}

static int is_near(uint64_t a, uint64_t b)
{
	int64_t distance = (int64_t)(a - b);

	return distance < CODE_REACH && distance > -CODE_REACH;
}

static struct slot_arena *arena_near(uint64_t near, size_t bytes, const char **why)
{
	for (size_t i = 0; i < slot_arena_count; i++)
		if (is_near(slot_arenas[i].start, near) &&
		    slot_arenas[i].used + bytes <= ARENA_BYTES)
			return &slot_arenas[i];
	if (slot_arena_count == ARENA_MAX) {
		*why = "too many different instructions have been copied";
		return NULL;
	}
	int64_t start = region_find(near, ARENA_BYTES, PROT_READ | PROT_EXEC,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1);
	if (start < 0) {
		*why = "no free memory within reach of the text for a copy of the instruction";
		return NULL;
	}
	slot_arenas[slot_arena_count] = (struct slot_arena){ (uint64_t)start, 0 };
	return &slot_arenas[atomic_add(&slot_arena_count, 1u)];
}

/* From offset on the copy stands for the code at origin. */
static void add_pair(struct code_fresh *fresh, size_t offset, uint64_t origin)
{
	fresh->pairs[fresh->pair_count++] = (struct code_pair){ (uint32_t)offset, origin };
}

/*
 * The instructions and a jump behind the last. Length, or -errno. A call in a slot would have to be
 * taken apart, which a shadow stack would not forgive: calls are emulated or refused.
 */
static int build(uint64_t address, const uint8_t *bytes, size_t len, uint64_t slot, uint8_t *out,
		 struct code_fresh *fresh, const char **why)
{
	struct insn_copy copy;
	struct insn insn;
	size_t length = 0;

	*why = "the instruction can neither be emulated nor run elsewhere";
	for (size_t done = 0; done < len; done += insn.length) {
		int err = insn_decode(bytes + done, len - done, &insn);
		if (err)
			return -EINVAL;
		if (insn.kind == INSN_CALL || insn.kind == INSN_CALL_INDIRECT ||
		    insn.kind == INSN_TRAP)
			return -EOPNOTSUPP;
		err = insn_relocate(&insn, bytes + done, address + done, slot + length, &copy, why);
		if (err)
			return err;
		if (length + copy.length + CODE_JUMP_BYTES > SLOT_BYTES)
			return -EOPNOTSUPP;
		add_pair(fresh, length, address + done);
		memcpy(out + length, copy.bytes, copy.length);
		length += copy.length;
	}
	add_pair(fresh, length, address + len);
	code_put_jump(out + length, slot + length, address + len);
	return (int)(length + CODE_JUMP_BYTES);
}

int slot_copy(uint64_t address, const uint8_t *bytes, size_t len, uint64_t *out, const char **why)
{
	uint8_t copy[SLOT_BYTES];
	struct code_fresh fresh = { .origin = address, .bytes = copy };
	int err = grow();

	if (err)
		return err;
	struct slot *slot = find(address, bytes, len);
	if (slot->address) {
		*out = slot->slot;
		return 0;
	}
	struct slot_arena *arena = arena_near(address, SLOT_BYTES, why);
	if (!arena)
		return -ENOSPC;
	uint64_t at = arena->start + arena->used;
	int length = build(address, bytes, len, at, copy, &fresh, why);
	if (length < 0)
		return length;
	fresh.address = at;
	fresh.len = (size_t)length;
	fresh.begin_ns = clock_now_ns();
	err = text_write_fresh(at, copy, (size_t)length);
	if (err) {
		*why = "a copy of the instruction cannot be written: neither /proc/thread-self/mem "
		       "nor mprotect() work here";
		return err;
	}
	code_stream_slot(&fresh);
	arena->used += SLOT_BYTES;
	slot->address = address;
	slot->slot = at;
	slot->len = (uint8_t)len;
	memcpy(slot->bytes, bytes, len);
	known_count++;
	*out = at;
	return 0;
}
