/* SPDX-License-Identifier: MIT */
/* window_emit.h - x86-64 instructions as they are written into the cache of a window. */
#ifndef CODE_WINDOW_EMIT_H
#define CODE_WINDOW_EMIT_H

#include <string.h>

#include "code/window/window.h"

/* Numbers in the encoding. */
enum {
	EMIT_RAX,
	EMIT_RCX,
	EMIT_RDX
};

static inline uint64_t emit_pc(const struct window_area *a)
{
	return (uint64_t)(uintptr_t)a->code + a->used;
}

static inline void emit(struct window_area *a, const void *bytes, size_t n)
{
	memcpy(a->writable + a->used, bytes, n);
	a->used += (uint32_t)n;
}

static inline void emit_1(struct window_area *a, unsigned int byte)
{
	a->writable[a->used++] = (uint8_t)byte;
}

static inline void emit_4(struct window_area *a, uint32_t word)
{
	emit(a, &word, 4);
}

static inline void emit_8(struct window_area *a, uint64_t word)
{
	emit(a, &word, 8);
}

/* The distance to a member of the area, from behind the field and what follows it. */
static inline void emit_field(struct window_area *a, const void *member, unsigned int behind)
{
	emit_4(a, (uint32_t)((uint64_t)(uintptr_t)member - (emit_pc(a) + 4 + behind)));
}

/* mov %reg, member; and back. reg is the number in the encoding. */
static inline void emit_store(struct window_area *a, unsigned int reg, const void *member)
{
	emit_1(a, 0x48 | (reg >> 3) << 2);
	emit_1(a, 0x89);
	emit_1(a, (reg & 7) << 3 | 5);
	emit_field(a, member, 0);
}

static inline void emit_load(struct window_area *a, unsigned int reg, const void *member)
{
	emit_1(a, 0x48 | (reg >> 3) << 2);
	emit_1(a, 0x8b);
	emit_1(a, (reg & 7) << 3 | 5);
	emit_field(a, member, 0);
}

/* movl $value, member */
static inline void emit_store_number(struct window_area *a, const void *member, uint32_t value)
{
	emit_1(a, 0xc7);
	emit_1(a, 0x05);
	emit_field(a, member, 4);
	emit_4(a, value);
}

/* movabs $value, %reg */
static inline void emit_constant(struct window_area *a, unsigned int reg, uint64_t value)
{
	emit_1(a, 0x48 | reg >> 3);
	emit_1(a, 0xb8 | (reg & 7));
	emit_8(a, value);
}

/* jmp to an offset in the cache; the offset of its distance. */
static inline uint32_t emit_jump(struct window_area *a, uint32_t to)
{
	emit_1(a, 0xe9);
	emit_4(a, to - (a->used + 4));
	return a->used - 4;
}

static inline void emit_patch(struct window_area *a, uint32_t at, uint32_t to)
{
	const uint32_t distance = to - (at + 4);

	memcpy(a->writable + at, &distance, 4);
}

/* Goes to dispatch, with the number of a site. */
static inline void emit_site(struct window_area *a, uint32_t site)
{
	emit_store_number(a, &a->site, site);
	emit_jump(a, a->save);
}

/* Where an indirect branch goes that the table of jumps does not have; the number 0 is its site. */
static inline void emit_miss(struct window_area *a)
{
	a->miss = a->used;
	emit_store(a, EMIT_RAX, &a->target);
	emit_load(a, EMIT_RAX, &a->spill_rax);
	emit_load(a, EMIT_RCX, &a->spill_rcx);
	emit_load(a, EMIT_RDX, &a->spill_rdx);
	emit_site(a, 0);
}

static inline uint8_t *emit_bytes_end(struct window_area *a)
{
	return a->writable + a->used;
}

/* The encoding's number of a register with this DWARF number. */
static inline unsigned int emit_number(unsigned int dwarf)
{
	static const uint8_t low[] = { 0, 2, 1, 3, 6, 7, 5, 4 };

	return dwarf < 8 ? low[dwarf] : dwarf;
}

#endif
