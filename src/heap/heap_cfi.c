/* SPDX-License-Identifier: MIT */
/*
 * heap_cfi.c - see heap_cfi.h.
 *
 * The tables are those of loaded objects, which libgcc reads as they are, too. What is unusual in
 * one (expressions, signal frames, other encodings) makes the answer UNKNOWN.
 */
#include "heap/heap_cfi.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "code/unwind/unwind_index.h"

#define BP 6u
#define SP 7u
#define RETURN 16u
#define WORD 8
#define KEPT 4u /* states that are remembered at once */
#define POINTER_PC_RELATIVE 0x1b
#define OP_BP 0x76 /* DW_OP_breg6 */
#define OP_DEREF 0x06

enum {
	NOP = 0x00,
	ADVANCE1 = 0x02,
	ADVANCE2 = 0x03,
	ADVANCE4 = 0x04,
	OFFSET_EXTENDED = 0x05,
	RESTORE_EXTENDED = 0x06,
	UNDEFINED = 0x07,
	SAME_VALUE = 0x08,
	REGISTER = 0x09,
	REMEMBER = 0x0a,
	RESTORE_STATE = 0x0b,
	DEF_CFA = 0x0c,
	DEF_CFA_REGISTER = 0x0d,
	DEF_CFA_OFFSET = 0x0e,
	DEF_CFA_EXPRESSION = 0x0f,
	EXPRESSION = 0x10,
	ARGS_SIZE = 0x2e,
	ADVANCE = 0x40,
	OFFSET = 0x80,
	RESTORE = 0xc0,
};

struct bytes {
	const uint8_t *at;
	const uint8_t *end;
	bool is_wrong; /* read beyond the end, or something unusual was met */
};

static uint64_t take_fixed(struct bytes *b, size_t n)
{
	uint64_t value = 0;

	if ((size_t)(b->end - b->at) < n) {
		b->is_wrong = true;
		return 0;
	}
	memcpy(&value, b->at, n);
	b->at += n;
	return value;
}

static uint64_t take_leb(struct bytes *b, bool is_signed)
{
	uint64_t value = 0;

	for (uint32_t shift = 0; shift < 63; shift += 7) {
		uint64_t byte = take_fixed(b, 1);

		value |= (byte & 0x7f) << shift;
		if (byte & 0x80)
			continue;
		if (is_signed && byte & 0x40)
			value |= ~UINT64_C(0) << (shift + 7);
		return value;
	}
	b->is_wrong = true;
	return 0;
}

static uint64_t take_uleb(struct bytes *b)
{
	return take_leb(b, false);
}

static int64_t take_sleb(struct bytes *b)
{
	return (int64_t)take_leb(b, true);
}

/* ---- the program of an entry ---- */

enum how {
	AS_BEFORE, /* of the frame pointer: it is the caller's own */
	BELOW_CFA,
	AT_BP,
	NOWHERE, /* of a return address: nothing called this function */
};

struct state {
	uint64_t cfa_register;
	int64_t cfa_offset;
	bool cfa_is_word; /* *(register + offset) */
	enum how bp;
	int64_t bp_offset;
	enum how back; /* the return address */
};

struct run {
	uint64_t factor;
	int64_t data_factor;
	uint64_t at;	 /* of the function, as the program advances */
	uint64_t target; /* the rules there are wanted */
	struct state now;
	struct state first; /* after the common part */
	struct state kept[KEPT];
	uint32_t kept_count;
};

/* Nothing is wanted of other registers. */
static void set_saved(struct run *r, struct bytes *b, uint64_t reg, int64_t offset)
{
	if (reg == BP) {
		r->now.bp = BELOW_CFA;
		r->now.bp_offset = offset;
	} else if (reg == RETURN) {
		r->now.back = BELOW_CFA;
		b->is_wrong |= offset != -WORD;
	} else if (reg == SP) {
		b->is_wrong = true;
	}
}

static void restore(struct run *r, uint64_t reg)
{
	if (reg == BP) {
		r->now.bp = r->first.bp;
		r->now.bp_offset = r->first.bp_offset;
	} else if (reg == RETURN) {
		r->now.back = r->first.back;
	}
}

/*
 * As gcc has it where it aligns a stack: the end of the frame is in a word below the frame pointer.
 */
static void set_cfa_expression(struct run *r, struct bytes *b)
{
	uint64_t n = take_uleb(b);
	const uint8_t *from = b->at;

	b->is_wrong |= take_fixed(b, 1) != OP_BP;
	r->now.cfa_register = BP;
	r->now.cfa_offset = take_sleb(b);
	r->now.cfa_is_word = true;
	b->is_wrong |= take_fixed(b, 1) != OP_DEREF || (uint64_t)(b->at - from) != n;
}

static void set_expression(struct run *r, struct bytes *b)
{
	uint64_t reg = take_uleb(b);
	uint64_t n = take_uleb(b);

	if (reg == BP) {
		b->is_wrong |= n != 2 || take_fixed(b, 1) != OP_BP || take_fixed(b, 1) != 0;
		r->now.bp = AT_BP;
		return;
	}
	b->is_wrong |= reg == RETURN || reg == SP || n > (uint64_t)(b->end - b->at);
	if (!b->is_wrong)
		b->at += n;
}

static void set_cfa(struct run *r, uint64_t reg, int64_t offset)
{
	r->now.cfa_register = reg;
	r->now.cfa_offset = offset;
	r->now.cfa_is_word = false;
}

static void without_value(struct run *r, struct bytes *b, uint64_t reg, bool is_undefined)
{
	if (reg == BP)
		r->now.bp = AS_BEFORE;
	else if (reg == RETURN)
		r->now.back = NOWHERE;
	b->is_wrong |= reg == SP || (reg == RETURN && !is_undefined);
}

static void keep(struct run *r, struct bytes *b)
{
	if (r->kept_count == KEPT)
		b->is_wrong = true;
	else
		r->kept[r->kept_count++] = r->now;
}

static void take_kept(struct run *r, struct bytes *b)
{
	if (!r->kept_count)
		b->is_wrong = true;
	else
		r->now = r->kept[--r->kept_count];
}

static void run_other(struct run *r, struct bytes *b, uint8_t op)
{
	uint64_t reg;

	switch (op) {
	case NOP:
		return;
	case ADVANCE1:
	case ADVANCE2:
	case ADVANCE4:
		r->at += r->factor * take_fixed(b, op == ADVANCE4 ? 4 : op - 1u);
		return;
	case OFFSET_EXTENDED:
		reg = take_uleb(b);
		set_saved(r, b, reg, (int64_t)take_uleb(b) * r->data_factor);
		return;
	case RESTORE_EXTENDED:
		restore(r, take_uleb(b));
		return;
	case UNDEFINED:
	case SAME_VALUE:
		without_value(r, b, take_uleb(b), op == UNDEFINED);
		return;
	case REMEMBER:
		keep(r, b);
		return;
	case RESTORE_STATE:
		take_kept(r, b);
		return;
	case DEF_CFA:
		reg = take_uleb(b);
		set_cfa(r, reg, (int64_t)take_uleb(b));
		return;
	case DEF_CFA_REGISTER:
		b->is_wrong |= r->now.cfa_is_word;
		r->now.cfa_register = take_uleb(b);
		return;
	case DEF_CFA_OFFSET:
		b->is_wrong |= r->now.cfa_is_word;
		r->now.cfa_offset = (int64_t)take_uleb(b);
		return;
	case DEF_CFA_EXPRESSION:
		set_cfa_expression(r, b);
		return;
	case EXPRESSION:
		set_expression(r, b);
		return;
	case ARGS_SIZE:
		take_uleb(b);
		return;
	default:
		b->is_wrong = true;
	}
}

/* The rules at the target: what the program states of addresses up to there. */
static void run_program(struct run *r, struct bytes *b)
{
	while (b->at < b->end && !b->is_wrong && r->at <= r->target) {
		uint8_t op = (uint8_t)take_fixed(b, 1);
		uint8_t low = op & 0x3f;

		switch (op & 0xc0) {
		case ADVANCE:
			r->at += low * r->factor;
			break;
		case OFFSET:
			set_saved(r, b, low, (int64_t)take_uleb(b) * r->data_factor);
			break;
		case RESTORE:
			restore(r, low);
			break;
		default:
			run_other(r, b, op);
		}
	}
}

static uint32_t rule_from(const struct state *s)
{
	int64_t bytes = s->cfa_is_word ? -s->cfa_offset : s->cfa_offset;
	uint32_t kind = s->cfa_is_word	      ? HEAP_CFI_BY_WORD :
			s->cfa_register == SP ? HEAP_CFI_BY_SP :
						HEAP_CFI_BY_BP;
	int64_t saved = s->bp == BELOW_CFA ? -s->bp_offset / WORD : 0;

	if (s->back == NOWHERE)
		return HEAP_CFI_LAST;
	if ((s->cfa_register != SP && s->cfa_register != BP) || s->back != BELOW_CFA || bytes < 0 ||
	    bytes % WORD || bytes / WORD > HEAP_CFI_WORDS_MAX || s->bp_offset % WORD || saved < 0 ||
	    saved > (int64_t)HEAP_CFI_SAVED_MAX || (s->bp == BELOW_CFA && !saved))
		return HEAP_CFI_UNKNOWN;
	return HEAP_CFI_RULE(kind, bytes / WORD, s->bp == AT_BP ? HEAP_CFI_SAVED_AT_BP : saved);
}

/* ---- the entry ---- */

/* Its bytes behind the length. 64-bit lengths are never written. */
static struct bytes open_entry(const uint8_t *at)
{
	uint32_t length;

	memcpy(&length, at, sizeof(length));
	return (struct bytes){ at + 4, at + 4 + length, length < 4 || length >= 0xfffffff0 };
}

/* The common part of entries: its program has run when this returns. false: it is unusual. */
static bool run_common(struct run *r, const uint8_t *at)
{
	struct bytes b = open_entry(at);

	if (b.is_wrong || take_fixed(&b, 4))
		return false;
	uint64_t version = take_fixed(&b, 1);
	const char *letters = (const char *)b.at;
	bool has_range = false;

	while (take_fixed(&b, 1))
		;
	r->factor = take_uleb(&b);
	r->data_factor = take_sleb(&b);
	b.is_wrong |= take_uleb(&b) != RETURN;
	if (b.is_wrong || version != 1 || *letters++ != 'z')
		return false;
	const uint64_t bytes = take_uleb(&b);
	if (b.is_wrong || bytes > (uint64_t)(b.end - b.at))
		return false;
	const uint8_t *program = b.at + bytes;
	for (; *letters; letters++) {
		uint64_t encoding = *letters == 'R' || *letters == 'L' || *letters == 'P' ?
					    take_fixed(&b, 1) :
					    0;

		if (*letters == 'R')
			has_range = encoding == POINTER_PC_RELATIVE;
		else if (*letters == 'P')
			/* A word of 4 or of 8 bytes. */
			take_fixed(&b, (encoding & 7) == 3 ? 4 : 8);
		else if (*letters != 'L')
			return false; /* also a signal's */
	}
	b.at = program;
	run_program(r, &b);
	r->first = r->now;
	return has_range && !b.is_wrong;
}

static uint32_t rule_of_entry(const uint8_t *entry, uint64_t target)
{
	struct run r = { .target = target, .now = { .back = BELOW_CFA } };
	struct bytes b = open_entry(entry);
	const uint8_t *to_common = b.at;
	uint32_t back = (uint32_t)take_fixed(&b, 4);

	if (b.is_wrong || !back || !run_common(&r, to_common - back))
		return HEAP_CFI_UNKNOWN;
	uint64_t place = (uintptr_t)b.at;
	uint64_t start = place + (uint64_t)(int64_t)(int32_t)take_fixed(&b, 4);
	uint64_t length = take_fixed(&b, 4);
	uint64_t bytes = take_uleb(&b);
	if (b.is_wrong || target - start >= length || bytes > (uint64_t)(b.end - b.at))
		return HEAP_CFI_UNKNOWN;
	b.at += bytes;
	r.at = start;
	run_program(&r, &b);
	return b.is_wrong ? HEAP_CFI_UNKNOWN : rule_from(&r.now);
}

uint32_t heap_cfi_rule(uint64_t return_address)
{
	/* A call may be the last instruction of a function. */
	uint64_t target = return_address - 1;
	struct dl_find_object object;

	if (_dl_find_object((void *)(uintptr_t)target, &object) || !object.dlfo_eh_frame)
		return HEAP_CFI_UNKNOWN;
	const struct unwind_row *row = unwind_index_find(object.dlfo_eh_frame, target);
	return row ? rule_of_entry((const uint8_t *)object.dlfo_eh_frame + row->entry, target) :
		     HEAP_CFI_UNKNOWN;
}
