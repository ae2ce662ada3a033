/* SPDX-License-Identifier: MIT */
/*
 * reach.c - see reach.h.
 *
 * Control flow is followed in straight runs: from a wanted address to the next jump or return that
 * does not continue. A run is accepted only when all of it has been decoded, because a wrong guess
 * about a call shows only behind it. Then what follows the last call is dropped.
 */
#include <errno.h>
#include <string.h>

#include "code/reach/reach.h"
#include "code/reach/reach_table.h"

/* Where a run ended. */
enum end {
	END_KNOWN, /* a jump, a return, or what is reached already */
	END_BAD,   /* no code: a constant, or an instruction that no program has */
	END_FULL,  /* there is more of it */
};

static void set_bit(uint8_t *bits, uint64_t at)
{
	bits[at / 8] |= (uint8_t)(1u << at % 8);
}

int reach_begin(struct reach *r, const uint8_t *code, uint64_t start, uint64_t end,
		const struct reach_ops *ops)
{
	uint64_t bytes = (end - start) / 8 + 1;

	if (end - start > REACH_BYTES_MAX)
		return -E2BIG;
	r->code = code;
	r->start = start;
	r->end = end;
	r->ops = ops;
	r->stack_count = r->is_cut = r->jump_count = 0;
	if (bytes > sizeof(r->first))
		bytes = sizeof(r->first);
	memset(r->first, 0, bytes);
	memset(r->rest, 0, bytes);
	memset(r->wanted, 0, bytes);
	memset(r->data, 0, bytes);
	return 0;
}

void reach_root(struct reach *r, uint64_t address)
{
	uint64_t at = address - r->start;

	if (at >= r->end - r->start || reach_bit(r->wanted, at))
		return;
	set_bit(r->wanted, at);
	if (r->stack_count < REACH_STACK)
		r->stack[r->stack_count++] = (uint32_t)at;
	else
		r->is_cut = 1;
}

void reach_leave(struct reach *r, uint64_t target)
{
	if (target - r->start < r->end - r->start)
		reach_root(r, target);
	else
		r->ops->on_leave(r->ops->arg, target);
}

void reach_is_data(struct reach *r, uint64_t address, uint64_t bytes)
{
	for (uint64_t at = address - r->start; bytes; at++, bytes--)
		if (at < r->end - r->start)
			set_bit(r->data, at);
}

/* Compilers write no such instruction; constants look like it. */
static int is_strange(const uint8_t *code, const struct insn *insn)
{
	return insn->flags & (INSN_PRIVILEGED | INSN_FAR) ||
	       (insn->length == 2 && !code[0] && !code[1]);
}

/* A variable in the text, or a table: what is read of it is not code. */
static void note_data(struct reach *r, uint64_t pc, const struct insn *insn)
{
	for (unsigned int i = 0; i < insn->memory_count; i++) {
		const struct insn_memory *m = &insn->memory[i];
		if (m->base == INSN_RIP && m->index == INSN_NO_REG && !(insn->flags & INSN_HINT))
			reach_is_data(r, pc + (uint64_t)m->displacement, m->size);
	}
}

static int goes_on(uint8_t kind)
{
	return kind != INSN_JUMP && kind != INSN_JUMP_INDIRECT && kind != INSN_RETURN &&
	       kind != INSN_TRAP;
}

/*
 * A call to the next instruction, or into the function: it fetches its own address, or never
 * returns.
 */
static int comes_back(struct reach *r, uint64_t pc, const struct insn *insn)
{
	if (insn->kind == INSN_CALL) {
		uint64_t at = pc + (uint64_t)insn->target - r->start;

		if (at && at < r->end - r->start) {
			reach_root(r, r->start + at);
			return 0;
		}
	}
	return r->ops->returns(r->ops->arg, pc, insn);
}

static int is_jump_bad(struct reach *r, uint64_t pc, const struct insn *insn)
{
	uint64_t target = pc + (uint64_t)insn->target;

	if (insn->kind != INSN_JUMP && insn->kind != INSN_JUMP_CONDITIONAL)
		return 0;
	return target - r->start >= r->end - r->start && !r->ops->is_text(r->ops->arg, target);
}

/* Decodes from at on. *count: steps; *kept: how many of them are certain if the run is bad. */
static enum end decode_run(struct reach *r, uint32_t at, uint32_t *count, uint32_t *kept)
{
	uint64_t bytes = r->end - r->start;
	uint32_t after_call = UINT32_MAX;
	enum end end = END_KNOWN;
	uint32_t n = 0;

	for (; at < bytes && !reach_bit(r->first, at); n++) {
		uint64_t pc = r->start + at;
		uint64_t left = bytes - at;
		struct insn insn;

		if (n == REACH_RUN) {
			end = END_FULL;
			break;
		}
		if (insn_decode(r->code + at, left < INSN_LENGTH_MAX ? left : INSN_LENGTH_MAX,
				&insn) ||
		    is_strange(r->code + at, &insn) || is_jump_bad(r, pc, &insn)) {
			end = END_BAD;
			break;
		}
		r->steps[n] =
			(struct reach_step){ at, insn.length, insn.kind, insn.flags, insn.target };
		note_data(r, pc, &insn);
		r->ops->on_insn(r->ops->arg, pc, r->code + at, &insn);
		at += insn.length;
		int is_call = insn.kind == INSN_CALL || insn.kind == INSN_CALL_INDIRECT;
		if (!goes_on(insn.kind) || (is_call && !comes_back(r, pc, &insn))) {
			n++;
			*count = n;
			*kept = n;
			return END_KNOWN;
		}
		if (is_call)
			after_call = n + 1;
	}
	/* Nothing is behind the last instruction of a function. */
	if (end == END_KNOWN && at >= bytes && after_call < n)
		end = END_BAD;
	*count = n;
	*kept = end == END_BAD && after_call < n ? after_call : n;
	return end;
}

static void take_step(struct reach *r, const struct reach_step *s)
{
	set_bit(r->first, s->at);
	for (uint32_t i = 1; i < s->length; i++)
		set_bit(r->rest, s->at + i);
	if (s->kind == INSN_JUMP || s->kind == INSN_JUMP_CONDITIONAL)
		reach_leave(r, r->start + s->at + (uint64_t)s->target);
	if (s->kind != INSN_JUMP_INDIRECT)
		return;
	if (r->jump_count < REACH_JUMPS)
		r->jumps[r->jump_count++] = s->at;
}

static void reach_follow(struct reach *r, uint32_t at)
{
	enum end end;

	do {
		uint32_t count = 0;
		uint32_t kept = 0;

		end = decode_run(r, at, &count, &kept);
		for (uint32_t i = 0; i < kept; i++)
			take_step(r, &r->steps[i]);
		if (kept)
			at = r->steps[kept - 1].at + r->steps[kept - 1].length;
	} while (end == END_FULL);
}

/* What had no room on the stack. */
static void refill(struct reach *r)
{
	r->is_cut = 0;
	for (uint64_t at = 0; at < r->end - r->start; at++) {
		if (!reach_bit(r->wanted, at) || reach_bit(r->first, at))
			continue;
		if (r->stack_count == REACH_STACK / 2) {
			r->is_cut = 1;
			return;
		}
		r->stack[r->stack_count++] = (uint32_t)at;
	}
}

void reach_run(struct reach *r)
{
	uint32_t refills = 0;

	do {
		while (r->stack_count) {
			uint32_t at = r->stack[--r->stack_count];

			if (!reach_bit(r->first, at))
				reach_follow(r, at);
		}
		if (r->is_cut && refills++ < REACH_BYTES_MAX / REACH_STACK)
			refill(r);
		for (; !r->stack_count && r->jump_count;)
			reach_table(r, r->jumps[--r->jump_count]);
	} while (r->stack_count);
}

int reach_has(const struct reach *r, uint64_t address, uint32_t length)
{
	uint64_t at = address - r->start;

	if (at + length > r->end - r->start || !reach_bit(r->first, at) || reach_bit(r->rest, at))
		return 0;
	for (uint32_t i = 0; i < length; i++)
		if (reach_bit(r->data, at + i) || (i && reach_bit(r->first, at + i)))
			return 0;
	return 1;
}

int reach_covers(const struct reach *r, uint64_t address)
{
	uint64_t at = address - r->start;

	return at < r->end - r->start && (reach_bit(r->first, at) || reach_bit(r->rest, at));
}
