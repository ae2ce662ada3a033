/* SPDX-License-Identifier: MIT */
/*
 * flow_calls.c - which functions call which in a window, and the steps that bytes take.
 *
 * A call is recorded with the location of its return address on the stack. Returns are not: when
 * the stack pointer is above that location, the call is over. A step is a function, called from one
 * location, that stores bytes which one other step stored before.
 */
#include "base/general_regs.h"

#include "flow/flow_calls.h"

#include "base/atomic.h"
#include "base/hash.h"
#include "flow/flow_state.h"
#include "flow/flow_step.h"

#define HASH (2 * FLOW_STEPS)
#define DEPTH_MAX 24u

#define RESOLVER_BYTES 0x200u /* of the loader's function for lazy binding, which has no size */

/* What distinguishes steps; index 0 is the source itself. */
struct step_key {
	uint64_t back; /* of the function that stores */
	uint32_t parent;
	uint16_t source;
	uint8_t grade;
	uint8_t is_moved; /* computed before, by another one */
	uint8_t depth;
};

static struct step_key keys[FLOW_STEPS];
static uint32_t hash[HASH];
static uint64_t resolver_at;

void flow_calls_start(uint64_t resolver)
{
	resolver_at = resolver;
}

static void drop_ended(struct flow_thread *t, uint64_t sp)
{
	while (t->calls && t->call[t->calls - 1].at < sp)
		t->calls--;
}

void flow_calls_enter(struct flow_thread *t, uint64_t back, uint64_t at)
{
	drop_ended(t, at + 1);
	/* If a recursion is deep, the outermost and the innermost calls are kept. */
	if (t->calls == FLOW_CALLS)
		t->calls--;
	t->call[t->calls++] = (struct flow_call){ back, at };
}

void flow_calls_stack(struct flow_thread *t, uint64_t pc, uint64_t sp, struct flow_stack *out)
{
	drop_ended(t, sp);
	out->tid = t->tid;
	out->frames[0] = pc;
	out->count = 1;
	for (uint32_t i = t->calls; i && out->count < FLOW_FRAMES; i--)
		out->frames[out->count++] = t->call[i - 1].back;
}

static uint32_t place_of(const struct step_key *key)
{
	uint64_t h = (key->back ^ (uint64_t)key->parent << 40) * HASH_MIX;

	h = (h ^ h >> 29 ^ key->grade ^ (uint64_t)key->is_moved << 4 ^ (uint64_t)key->source << 8) *
	    HASH_MIX;
	return (uint32_t)(h >> 33) % HASH;
}

static int is_same_key(const struct step_key *a, const struct step_key *b)
{
	return a->back == b->back && a->parent == b->parent && a->source == b->source &&
	       a->grade == b->grade && a->is_moved == b->is_moved;
}

void flow_calls_made(struct flow_thread *t, uint64_t pc, uint64_t sp, struct flow_made *out)
{
	drop_ended(t, sp);
	const struct flow_call *call = t->calls ? &t->call[t->calls - 1] : NULL;

	*out = (struct flow_made){ pc, call ? call->back : 0, call ? call->at : 0 };
}

/* The function may have returned by now; those that have called it have not. */
static void stack_of(const struct flow_thread *t, const struct flow_made *made,
		     struct flow_stack *out)
{
	out->tid = t->tid;
	out->frames[0] = made->pc;
	out->count = 1;
	if (made->at)
		out->frames[out->count++] = made->back;
	for (uint32_t i = t->calls; i && out->count < FLOW_FRAMES; i--)
		if (t->call[i - 1].at > made->at)
			out->frames[out->count++] = t->call[i - 1].back;
}

/* 0: no room. */
static uint32_t make_step(struct flow_thread *t, const struct step_key *key,
			  const struct flow_made *made)
{
	if (t->steps_pending == FLOW_PENDING_STEPS ||
	    atomic_get(&flow_region->steps_used) >= FLOW_STEPS - 1) {
		flow_count(FLOW_LOST_STEPS, 1);
		return 0;
	}
	const uint32_t number = atomic_add(&flow_region->steps_used, 1u) + 1;
	if (number >= FLOW_STEPS) {
		flow_count(FLOW_LOST_STEPS, 1);
		return 0;
	}
	struct flow_step *step = &flow_region->steps[number];
	step->parent = key->parent;
	step->source = key->source;
	step->grade = key->grade;
	step->is_moved = key->is_moved;
	stack_of(t, made, &step->stack);
	keys[number] = *key;
	t->pending_steps[t->steps_pending++] = number;
	return number;
}

static uint32_t find_step(struct flow_thread *t, flow_mark mark, const struct flow_made *made,
			  int is_moved)
{
	const uint32_t parent = flow_step_of(mark);
	struct step_key key = {
		.back = made->back,
		.parent = parent,
		.source = (uint16_t)flow_source_of(mark),
		.grade = (uint8_t)flow_grade_of(mark),
		.is_moved = (uint8_t)is_moved,
	};

	if (t->last_step && is_same_key(&keys[t->last_step], &key))
		return t->last_step;
	if (parent && keys[parent].back == key.back && keys[parent].grade == key.grade &&
	    keys[parent].is_moved <= key.is_moved)
		return parent;
	key.depth = parent ? keys[parent].depth + 1 : 1;
	if (key.depth > DEPTH_MAX)
		return parent;
	for (uint32_t i = place_of(&key), n = 0; n < HASH; n++, i = (i + 1) % HASH) {
		uint32_t found = atomic_get(&hash[i]);

		if (found && is_same_key(&keys[found], &key))
			return t->last_step = found;
		if (found)
			continue;
		const uint32_t number = make_step(t, &key, made);
		/*
		 * If another thread took the row, this step is not found again: it is right all the
		 * same.
		 */
		if (number)
			atomic_cas(&hash[i], &found, number);
		return number ? number : parent;
	}
	return parent;
}

uint32_t flow_calls_computed(struct flow_thread *t, flow_mark mark, const struct flow_made *made)
{
	return made->pc && mark & FLOW_IS_COMPUTED ? find_step(t, mark, made, 0) :
						     flow_step_of(mark);
}

uint32_t flow_calls_step(struct flow_thread *t, flow_mark mark, uint64_t pc, uint64_t sp,
			 const struct flow_made *made)
{
	struct flow_made here;

	flow_calls_made(t, pc, sp, &here);
	const int is_moved = mark & FLOW_IS_COMPUTED && (!made->pc || made->back != here.back);

	if (is_moved)
		mark = flow_with_step(mark, flow_calls_computed(t, mark, made));
	if (resolver_at && pc - resolver_at < RESOLVER_BYTES)
		return flow_step_of(mark);
	return find_step(t, mark, &here, is_moved);
}
