/* SPDX-License-Identifier: MIT */
/* probe_jump_x86_64.c - see probe_jump.h. */
#include "code/probe/probe_jump.h"

#include <errno.h>
#include <string.h>

#include "code/insn/insn.h"
#include "code/poke/mapping.h"
#include "code/probe/probe_pads.h"

#define JUMP 0xe9
#define CALL 0xe8
#define TRIES_MAX 64u
#define BOUNDARIES_MAX 4
/* What is left free above the heap; if it must be, the less. Then malloc(3) continues elsewhere. */
#define HEAP_GROWS (512ull << 20)
#define HEAP_GROWS_LEAST (16ull << 20)

/* What is known of a site. */
struct probe_site {
	uint64_t address;
	uint64_t target;
	uint32_t len; /* of its first instruction */
	uint8_t bytes[JUMP_BYTES];
	/* Where the instructions behind the first begin, before the jump's end. */
	uint32_t boundaries[BOUNDARIES_MAX];
	uint32_t boundary_count;
};

/* The kernel turns such a nop into a call where a uprobe is: five bytes of the displacement. */
static int is_nop_of_uprobes(const uint8_t *bytes, size_t available)
{
	static const uint8_t nop[] = { 0x0f, 0x1f, 0x44, 0x00, 0x00 };

	return available >= sizeof(nop) && !memcmp(bytes, nop, sizeof(nop));
}

/* What it has become then. Elsewhere, the kernel would not know the call, and end the process. */
static int is_call_of_uprobe(uint64_t address, const uint8_t *bytes, size_t available)
{
	static struct mapping mapping; /* it is large, and the lock is held */
	int32_t distance;

	if (available < JUMP_BYTES || bytes[0] != CALL)
		return 0;
	memcpy(&distance, bytes + 1, sizeof(distance));
	return !mapping_find(address + JUMP_BYTES + (uint64_t)(int64_t)distance, &mapping) &&
	       !strcmp(mapping.name, "[uprobes-trampoline]");
}

int probe_jump_is_busy(uint64_t address, const uint8_t *text, size_t available)
{
	return text[0] == INT3 || is_call_of_uprobe(address, text, available);
}

static int find_boundaries(struct probe_site *site, const uint8_t *text, size_t available,
			   const char **why)
{
	for (uint32_t at = site->len; at < JUMP_BYTES;) {
		int length = insn_length_x86_64(text + at, available - at);

		*why = "a jump does not fit: the bytes behind the instruction are not code";
		if (length <= 0)
			return -ENOSPC;
		*why = "there is a breakpoint behind the instruction";
		if (probe_jump_is_busy(site->address + at, text + at, available - at))
			return -ENOSPC;
		*why = "a nop that the kernel may replace follows the instruction";
		if (is_nop_of_uprobes(text + at, available - at))
			return -ENOSPC;
		site->boundaries[site->boundary_count++] = at;
		at += (uint32_t)length;
	}
	return 0;
}

static uint64_t landing_of(const struct probe_site *site, const uint8_t *jump)
{
	int32_t distance;

	memcpy(&distance, jump + 1, sizeof(distance));
	return site->address + JUMP_BYTES + (uint64_t)(int64_t)distance;
}

/* Where the jump leads with a breakpoint on any of the instructions behind. */
static size_t find_landings(const struct probe_site *site, const uint8_t *jump, uint64_t *out)
{
	size_t n = (size_t)1 << site->boundary_count;

	for (size_t mask = 0; mask < n; mask++) {
		uint8_t changed[JUMP_BYTES];

		memcpy(changed, jump, sizeof(changed));
		for (uint32_t i = 0; i < site->boundary_count; i++)
			if (mask >> i & 1)
				changed[site->boundaries[i]] = INT3;
		out[mask] = landing_of(site, changed);
	}
	return n;
}

/*
 * The bytes of the displacement that are free are its lowest: one landing after the other, each in
 * another page while there are such.
 */
static void choose(const struct probe_site *site, uint32_t try, uint8_t *jump)
{
	uint32_t free_bits = 8 * (site->len - 1);
	uint32_t step = free_bits > 16 ? 0x3ffff : free_bits > 8 ? 0x3fff / 4 + 17 : 47;
	uint32_t value = try * step;

	jump[0] = JUMP;
	memcpy(jump + 1, site->bytes + 1, JUMP_BYTES - 1);
	for (uint32_t i = 1; i < site->len; i++)
		jump[i] = (uint8_t)(value >> 8 * (i - 1));
}

static int try_landings(const struct probe_site *site, uint64_t heap_grows, uint8_t *jump)
{
	uint64_t landings[PADS_AT_ONCE];
	uint32_t tries = site->len == 1 ? 1 : TRIES_MAX;
	int err = -EBUSY;

	for (uint32_t i = 0; i < tries && err == -EBUSY; i++) {
		choose(site, i, jump);
		err = pads_place(landings, find_landings(site, jump, landings), site->target,
				 heap_grows);
	}
	return err;
}

/*
 * A jump that differs from the instruction in its first byte only. That is the byte which a uprobe
 * of another tool replaces, and the kernel puts that of the file there when the uprobe goes: the
 * instruction is whole again then. With other bytes behind it the program would run what is
 * neither.
 */
static int make_alike(const struct probe_site *site, uint64_t heap_grows, uint8_t *jump)
{
	const int is_nop = site->len == JUMP_BYTES && is_nop_of_uprobes(site->bytes, JUMP_BYTES);
	const uint32_t tries = is_nop ? TRIES_MAX : 1;
	uint64_t landings[PADS_AT_ONCE];
	int err = -EBUSY;

	jump[0] = JUMP;
	memcpy(jump + 1, site->bytes + 1, JUMP_BYTES - 1);
	for (uint32_t i = 0; i < tries && err == -EBUSY; i++) {
		/* Its last two bytes state which memory the nop does not access. */
		if (is_nop)
			jump[JUMP_BYTES - 1] = (uint8_t)(64 + 5 * i);
		err = pads_place(landings, find_landings(site, jump, landings), site->target,
				 heap_grows);
	}
	return err;
}

static int make_short(const struct probe_site *site, int may_crowd, uint8_t *jump, const char **why)
{
	int err = try_landings(site, HEAP_GROWS, jump);

	if (err == -EBUSY && may_crowd)
		err = try_landings(site, HEAP_GROWS_LEAST, jump);
	*why = err == -EBUSY ? "the memory that a jump could lead to is in use" :
			       "memory for the jump's landing cannot be had";
	return err == -EBUSY ? -ENOSPC : err;
}

static int make_long(const struct probe_site *site, uint8_t *jump, const char **why)
{
	int64_t distance = (int64_t)(site->target - site->address - JUMP_BYTES);
	int32_t near = (int32_t)distance;

	*why = "no free memory within 2 GiB of the instruction";
	if (near != distance)
		return -ENOSPC;
	jump[0] = JUMP;
	memcpy(jump + 1, &near, sizeof(near));
	return 0;
}

int probe_jump_make(uint64_t address, const uint8_t *text, size_t available, uint64_t target,
		    int may_crowd, struct probe_jump *out, const char **why)
{
	struct probe_site site = { .address = address, .target = target };
	int length = insn_length_x86_64(text, available);
	int err;

	*why = "no instruction begins there";
	if (length <= 0)
		return -EINVAL;
	site.len = (uint32_t)length;
	memset(out, 0, sizeof(*out));
	out->len = (uint8_t)length;
	memcpy(out->before, text, site.len);
	memcpy(out->after, text, site.len);
	*why = "the instruction is too near to the end of its memory";
	if (available < JUMP_BYTES)
		return -ENOSPC;
	memcpy(site.bytes, text, JUMP_BYTES);
	err = find_boundaries(&site, text, available, why);
	if (err || !make_alike(&site, HEAP_GROWS, out->after) ||
	    (may_crowd && !make_alike(&site, HEAP_GROWS_LEAST, out->after)))
		return err;
	if (site.len < JUMP_BYTES)
		return make_short(&site, may_crowd, out->after, why);
	memset(out->after, INT3, site.len);
	return make_long(&site, out->after, why);
}
