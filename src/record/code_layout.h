/* SPDX-License-Identifier: MIT */
/*
 * code_layout.h - the stream of changes to code: what the writer and the reader share.
 *
 *   stream  := { record }, of which the first is CODE_FORMAT
 *   record  := struct code_head, payload, zeros up to a multiple of 8 bytes
 *
 * Numbers are little-endian, as on all processors that Trapline is for. A record is at most
 * CODE_RECORD_MAX bytes, which a pipe takes whole or not at all, so several processes may write to
 * one pipe. The sum is FNV-1a over all that follows it in the record. When a side dies, what is
 * complete is good, and the reader stops at the first record that is not.
 */
#ifndef RECORD_CODE_LAYOUT_H
#define RECORD_CODE_LAYOUT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define CODE_VERSION 1u
#define CODE_MAGIC "TRAPCODE"
#define CODE_RECORD_MAX 4096u
#define CODE_CLOCK_MONOTONIC 1u
#define CODE_ID_MAX 32u

struct code_head {
	uint32_t sum;
	uint16_t bytes; /* of the whole record */
	uint16_t kind;
	int32_t pid; /* 0: the kernel */
	int32_t tid;
	/* a process may have two copies of the library, each with its own batches */
	uint64_t source;
	uint64_t time_ns;
};

/* What the payload is, field by field. u16, u32 and u64 are numbers of so many bits. */
enum code_kind {
	CODE_FORMAT = 1, /* magic[8] version(u32) clock(u32) */
	CODE_START, /* image(u64) parent is_late(u32) fork_ns(u64): from here on, all changes */
	CODE_END,   /* up to here they were */
	CODE_MAP,   /* address size offset(u64) id_length(u32) path_length(u32) id path */
	/* batch(u64) form first total count(u32) { address(u64) len(u8) before after } */
	CODE_SITES,
	CODE_STAGE, /* batch(u64) stage(u32) */
	/* begin_ns address origin(u64) length pairs(u32) { offset(u32) origin(u64) } bytes */
	CODE_SLOT,
	CODE_FILL,	  /* begin_ns address bytes(u64) value(u32): CODE_NOTHING: it is unmapped */
	CODE_HIT,	  /* address resume(u64) is_orphan(u32) */
	CODE_LOST,	  /* first_ns(u64) changes hits(u32) */
	CODE_KERNEL_POKE, /* address(u64) old_length new_length(u32) old new */
	CODE_KSYMBOL,	  /* address(u64) length type flags(u32) name_length(u32) name */
};

#define CODE_NOTHING 256u

/* How threads are kept from half an instruction. */
enum code_form {
	CODE_FORM_TRAP,	  /* an int3 over the first byte, between TRAP and OPEN */
	CODE_FORM_SPIN,	  /* a jump to itself, of two bytes */
	CODE_FORM_DIRECT, /* a byte or a word changes: a trap reaches stay, or goes */
	CODE_FORM_BRK,	  /* arm64: CODE_BRK over the first four bytes, between TRAP and OPEN */
	CODE_FORMS,
};

/* brk #0x5470 */
#define CODE_BRK                       \
	{                              \
		0x00, 0x8e, 0x2a, 0xd4 \
	}

/* A record of any length that is being made. In handlers too: nothing below calls anything. */
struct code_record {
	struct code_head head;
	uint8_t payload[CODE_RECORD_MAX - sizeof(struct code_head)];
};

_Static_assert(sizeof(struct code_head) == 32, "the head has no holes");
_Static_assert(sizeof(struct code_record) == CODE_RECORD_MAX, "and none behind it");

#define CODE_INLINE static inline __attribute__((always_inline))

CODE_INLINE uint32_t code_sum(const void *record, size_t bytes)
{
	const uint8_t *at = record;
	uint32_t sum = 0x811c9dc5u;

	for (size_t i = sizeof(sum); i < bytes; i++)
		sum = (sum ^ at[i]) * 0x01000193u;
	return sum;
}

CODE_INLINE void code_put(struct code_head *r, const void *bytes, size_t n)
{
	uint8_t *to = (uint8_t *)r + r->bytes;

	for (size_t i = 0; i < n; i++) {
		to[i] = ((const uint8_t *)bytes)[i];
		__asm__ volatile("" ::: "memory"); /* or it becomes a call of memcpy() */
	}
	r->bytes = (uint16_t)(r->bytes + n);
}

CODE_INLINE void code_put32(struct code_head *r, uint32_t number)
{
	code_put(r, &number, sizeof(number));
}

CODE_INLINE void code_put64(struct code_head *r, uint64_t number)
{
	code_put(r, &number, sizeof(number));
}

CODE_INLINE size_t code_room(const struct code_head *r)
{
	return CODE_RECORD_MAX - r->bytes;
}

CODE_INLINE void code_open(struct code_head *r, enum code_kind kind)
{
	r->bytes = sizeof(*r);
	r->kind = (uint16_t)kind;
}

/* The rest of the head has been filled in. */
CODE_INLINE void code_close(struct code_head *r)
{
	static const uint8_t zeros[8];

	code_put(r, zeros, (8u - r->bytes % 8u) % 8u);
	r->sum = code_sum(r, r->bytes);
}

#endif
