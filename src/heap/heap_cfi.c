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

#include "code/unwind/unwind_index.h"
#include "code/unwind/unwind_table.h"

#define BP 6u
#define SP 7u
#define RETURN 16u
#define WORD 8
#define KEPT 4u	   /* states that are remembered at once */
#define OP_BP 0x76 /* DW_OP_breg6 */
#define OP_DEREF 0x06

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
	uint64_t at;	 /* of the function, as the program advances */
	uint64_t target; /* the rules there are wanted */
	struct state now;
	struct state first; /* after the common part */
	struct state kept[KEPT];
	uint32_t kept_count;
	bool is_wrong; /* something unusual was met */
};

/* Nothing is wanted of other registers. */
static void set_saved(struct run *r, uint64_t reg, int64_t offset)
{
	if (reg == BP) {
		r->now.bp = BELOW_CFA;
		r->now.bp_offset = offset;
	} else if (reg == RETURN) {
		r->now.back = BELOW_CFA;
		r->is_wrong |= offset != -WORD;
	} else if (reg == SP) {
		r->is_wrong = true;
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

/* breg6 and its offset, perhaps with a deref behind it. False: it is another expression. */
static bool read_expression(const struct unwind_step *s, int64_t *offset, bool *is_word)
{
	struct unwind_reader b;

	unwind_open(&b, NULL);
	unwind_seek(&b, s->block, s->block_end);
	if (unwind_number(&b, 1) != OP_BP)
		return false;
	*offset = unwind_sleb(&b);
	*is_word = unwind_position(&b) < s->block_end;
	return (!*is_word || unwind_number(&b, 1) == OP_DEREF) && !b.is_wrong &&
	       unwind_position(&b) == s->block_end;
}

/*
 * As gcc has it where it aligns a stack: the end of the frame is in a word below the frame pointer.
 */
static void set_cfa_expression(struct run *r, const struct unwind_step *s)
{
	r->now.cfa_register = BP;
	r->is_wrong |= !read_expression(s, &r->now.cfa_offset, &r->now.cfa_is_word) ||
		       !r->now.cfa_is_word;
}

static void set_expression(struct run *r, const struct unwind_step *s)
{
	int64_t offset = 0;
	bool is_word = false;

	if (s->reg == BP) {
		r->is_wrong |= !read_expression(s, &offset, &is_word) || is_word || offset;
		r->now.bp = AT_BP;
	}
	r->is_wrong |= s->reg == RETURN || s->reg == SP;
}

static void set_cfa(struct run *r, const struct unwind_step *s)
{
	if (s->op == UNWIND_DEF_CFA)
		r->now.cfa_is_word = false;
	r->is_wrong |= r->now.cfa_is_word;
	if (s->op != UNWIND_DEF_CFA_OFFSET)
		r->now.cfa_register = s->reg;
	if (s->op != UNWIND_DEF_CFA_REGISTER)
		r->now.cfa_offset = s->number;
}

static void without_value(struct run *r, uint64_t reg, bool is_undefined)
{
	if (reg == BP)
		r->now.bp = AS_BEFORE;
	else if (reg == RETURN)
		r->now.back = NOWHERE;
	r->is_wrong |= reg == SP || (reg == RETURN && !is_undefined);
}

static void keep(struct run *r)
{
	if (r->kept_count == KEPT)
		r->is_wrong = true;
	else
		r->kept[r->kept_count++] = r->now;
}

static void take_kept(struct run *r)
{
	if (!r->kept_count)
		r->is_wrong = true;
	else
		r->now = r->kept[--r->kept_count];
}

static void run_step(struct run *r, const struct unwind_step *s)
{
	switch (s->op) {
	case UNWIND_NOP:
	case UNWIND_ARGS_SIZE:
		return;
	case UNWIND_ADVANCE:
		r->at += (uint64_t)s->number;
		return;
	case UNWIND_OFFSET:
		set_saved(r, s->reg, s->number);
		return;
	case UNWIND_RESTORE:
		restore(r, s->reg);
		return;
	case UNWIND_UNDEFINED:
	case UNWIND_SAME_VALUE:
		without_value(r, s->reg, s->op == UNWIND_UNDEFINED);
		return;
	case UNWIND_REMEMBER:
		keep(r);
		return;
	case UNWIND_RESTORE_STATE:
		take_kept(r);
		return;
	case UNWIND_DEF_CFA:
	case UNWIND_DEF_CFA_REGISTER:
	case UNWIND_DEF_CFA_OFFSET:
		set_cfa(r, s);
		return;
	case UNWIND_DEF_CFA_EXPRESSION:
		set_cfa_expression(r, s);
		return;
	case UNWIND_EXPRESSION:
		set_expression(r, s);
		return;
	default:
		r->is_wrong = true;
	}
}

/* The rules at the target: what the program states of addresses up to there. */
static bool run_program(struct run *r, struct unwind_reader *b, const struct unwind_common *common,
			uint64_t program, uint64_t end)
{
	struct unwind_step step;

	unwind_seek(b, program, end);
	while (r->at <= r->target && !r->is_wrong && unwind_next(b, common, &step))
		run_step(r, &step);
	return !r->is_wrong && !b->is_wrong;
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

/* What is unusual in the common part of entries, also that of a signal's frame, is not followed. */
static bool is_usual(const struct unwind_common *common)
{
	return common->version == 1 && common->has_data && common->is_plain &&
	       common->pointer == UNWIND_PC_RELATIVE_INT && common->return_register == RETURN;
}

static uint32_t rule_of_entry(uint64_t at, uint64_t target)
{
	struct run r = { .target = target, .now = { .back = BELOW_CFA } };
	struct unwind_common common = { .at = 0 };
	struct unwind_entry entry;
	struct unwind_reader b;

	unwind_open(&b, NULL);
	if (unwind_read_head(&b, at, &entry) || !entry.common ||
	    unwind_read_common(&b, entry.common, &common) || !is_usual(&common) ||
	    unwind_read_entry(&b, &common, &entry) || target - entry.start >= entry.bytes ||
	    !run_program(&r, &b, &common, common.program, common.end))
		return HEAP_CFI_UNKNOWN;
	r.first = r.now;
	r.at = entry.start;
	return run_program(&r, &b, &common, entry.program, entry.end) ? rule_from(&r.now) :
									HEAP_CFI_UNKNOWN;
}

uint32_t heap_cfi_rule(uint64_t return_address)
{
	/* A call may be the last instruction of a function. */
	uint64_t target = return_address - 1;
	struct dl_find_object object;

	if (_dl_find_object((void *)(uintptr_t)target, &object) || !object.dlfo_eh_frame)
		return HEAP_CFI_UNKNOWN;
	const struct unwind_row *row = unwind_index_find(object.dlfo_eh_frame, target);
	return row ? rule_of_entry((uintptr_t)object.dlfo_eh_frame + (uint64_t)(int64_t)row->entry,
				   target) :
		     HEAP_CFI_UNKNOWN;
}
