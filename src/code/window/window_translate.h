/* SPDX-License-Identifier: MIT */
/*
 * window_translate.h - one block on its way into the cache: what window_translate.c and
 * window_form.c share.
 */
#ifndef CODE_WINDOW_TRANSLATE_H
#define CODE_WINDOW_TRANSLATE_H

#include "code/window/window.h"

struct window_build {
	struct window_area *area;
	uint64_t pc;
	uint64_t end_pc; /* a window ends before the instruction there */
	uint32_t number;
	unsigned int most;
	unsigned int planned;
	unsigned int planned_bytes;
	unsigned int bytes; /* done */
	unsigned int insns;
	unsigned int readable;
	int is_ended;	  /* by a branch */
	uint32_t push_at; /* the distance of a push to its constant; 0: none */
	uint64_t push_value;
	uint8_t text[WINDOW_BLOCK_BYTES + INSN_LENGTH_MAX];
	uint8_t found[WINDOW_BLOCK_BYTES + INSN_LENGTH_MAX]; /* text, as it is in memory */
	struct insn decoded[WINDOW_BLOCK_INSNS];
};

static inline uint32_t window_hash(uint64_t pc)
{
	return (uint32_t)((pc ^ pc >> 14) & (WINDOW_HASH - 1));
}

uint32_t window_site_add(struct window_build *b, enum window_site_kind kind, uint64_t guest,
			 uint32_t aux);
/* From here a fault is of the instruction that is being written. */
void window_mark_add(struct window_build *b, unsigned int saved, unsigned int other);
/* From here a trap is of the instruction that was written, and the thread continues at the next. */
struct window_mark *window_mark_done(struct window_build *b, unsigned int length);
/* The branch whose distance is there goes to target, at first by way of window_dispatch(). */
void window_emit_exit(struct window_build *b, uint32_t distance_at, uint64_t target);

/* ---- window_form.c ---- */

/* 1: the instruction cannot run in a window. */
int window_form_refuses(const struct insn *insn, const uint8_t *bytes);
/* 1: a block ends with it. */
int window_form_ends(const struct insn *insn, const uint8_t *bytes);
void window_form_emit(struct window_build *b, const struct insn *insn, const uint8_t *bytes);

#endif
