/* SPDX-License-Identifier: MIT */
/*
 * heap_frames.c - see heap_frames.h.
 *
 * Rules of the table: 1. A row is one word, return address and rule together: it is read and
 * written at once. 2. It is replaced at any time; what is not there is read again from the unwind
 * table.
 *
 * An object that is unloaded leaves rows behind. Should code of another one have a return address
 * in the same location, the walk goes astray, so it must stay within the stack.
 */
#include "heap/heap_frames.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>
#include <unwind.h>

#include "base/atomic.h"
#include "base/hash.h"
#include "heap/heap_cfi.h"

#define ROWS_LOG2 12u
#define RULE_BITS 17u
#define ADDRESS_MASK ((UINT64_C(1) << (64 - RULE_BITS)) - 1)
#define WORD 8u
#define STACK_MOST ((uintptr_t)64 << 20)

/* A return address above, a rule below. 0: free. */
static uint64_t rows[1u << ROWS_LOG2];

void heap_walk_forget(void)
{
	for (uint32_t i = 0; i < 1u << ROWS_LOG2; i++)
		if (counter_get(&rows[i]))
			atomic_set(&rows[i], UINT64_C(0));
}

static uint32_t rule_of(uint64_t pc)
{
	uint64_t *row = &rows[pc * HASH_MIX >> (64 - ROWS_LOG2)];
	uint64_t held = counter_get(row);

	if (__builtin_expect(held >> RULE_BITS == pc, 1))
		return (uint32_t)held & ((1u << RULE_BITS) - 1);
	if (pc > ADDRESS_MASK)
		return HEAP_CFI_UNKNOWN;
	uint32_t rule = heap_cfi_rule(pc);
	atomic_set(row, pc << RULE_BITS | rule);
	return rule;
}

/* What the registers of a caller are when its callee has returned. */
struct state {
	uintptr_t sp;
	uintptr_t bp;
	uintptr_t end; /* of the stack */
};

static uint64_t word_at(uintptr_t at)
{
	return *(const uint64_t *)at;
}

static bool has(const struct state *s, uintptr_t at)
{
	return at >= s->sp && at < s->end && !(at & (WORD - 1));
}

/*
 * To the caller of the function that continues there: where its return address is. false: not
 * known.
 */
static bool step(struct state *s, uint32_t rule, uintptr_t *at)
{
	uintptr_t bytes = HEAP_CFI_WORDS(rule) * WORD;
	uint32_t saved = HEAP_CFI_SAVED(rule);
	uintptr_t cfa = s->sp + bytes;

	if (HEAP_CFI_KIND(rule) != HEAP_CFI_BY_SP) {
		cfa = s->bp + bytes;
		if (HEAP_CFI_KIND(rule) == HEAP_CFI_BY_WORD) {
			if (!has(s, s->bp - bytes))
				return false;
			cfa = word_at(s->bp - bytes);
		}
	}
	if (!has(s, cfa - WORD))
		return false;
	uintptr_t bp_at = saved == HEAP_CFI_SAVED_AT_BP ? s->bp : cfa - saved * WORD;
	if (saved) {
		if (!has(s, bp_at))
			return false;
		s->bp = word_at(bp_at);
	}
	*at = cfa - WORD;
	s->sp = cfa;
	return true;
}

extern void *__libc_stack_end; /* where that of the first thread begins: of ld.so */

/*
 * Threads have their control block at the top of their stack; another stack is taken for a large
 * one.
 */
static uintptr_t end_of_stack(uintptr_t frame)
{
	const uintptr_t tops[] = { (uintptr_t)__builtin_thread_pointer(),
				   (uintptr_t)__libc_stack_end };
	uintptr_t end = frame + STACK_MOST;

	for (int i = 0; i < 2; i++)
		if (tops[i] > frame && tops[i] < end)
			end = tops[i];
	return end;
}

static bool walk_by_rules(struct heap_walk *walk)
{
	const uint64_t *frame = walk->frame;
	uintptr_t at = (uintptr_t)&frame[1];
	struct state s = { at + WORD, frame[0], end_of_stack((uintptr_t)frame) };

	for (;;) {
		uint64_t pc = word_at(at);
		if (!pc)
			return true;
		walk->offsets[walk->count] = (uint32_t)(at - (uintptr_t)frame);
		walk->frames[walk->count++] = pc;
		if (walk->count == HEAP_WALK_FRAMES)
			return true;
		uint32_t rule = rule_of(pc);
		if (rule == HEAP_CFI_LAST)
			return true;
		if (rule == HEAP_CFI_UNKNOWN || !step(&s, rule, &at))
			return false;
	}
}

/* ---- by libgcc ---- */

static _Unwind_Reason_Code note(struct _Unwind_Context *context, void *arg)
{
	struct heap_walk *walk = arg;
	uint64_t ip = _Unwind_GetIP(context);
	uint64_t at = _Unwind_GetCFA(context) - sizeof(uint64_t);
	uint64_t offset = at - (uintptr_t)walk->frame;

	/* Trapline's come first. */
	if (!walk->count && at != (uintptr_t)&walk->frame[1])
		return _URC_NO_REASON;
	if (walk->count == HEAP_WALK_FRAMES || !ip)
		return _URC_END_OF_STACK;
	/* Behind a signal it is in a register, or on another stack. */
	if (offset >= HEAP_WALK_NOWHERE || *(const uint64_t *)at != ip) {
		walk->is_regular = false;
		offset = HEAP_WALK_NOWHERE;
	}
	walk->offsets[walk->count] = (uint32_t)offset;
	walk->frames[walk->count++] = ip;
	return _URC_NO_REASON;
}

void heap_walk(struct heap_walk *walk, const uint64_t *frame)
{
	walk->frame = frame;
	walk->count = 0;
	walk->is_regular = true;
	if (walk_by_rules(walk))
		return;
	walk->count = 0;
	_Unwind_Backtrace(note, walk);
	if (walk->count)
		return;
	walk->offsets[0] = sizeof(uint64_t);
	walk->frames[0] = frame[1];
	walk->count = 1;
	walk->is_regular = false;
}
