/* SPDX-License-Identifier: MIT */
/* hit_ring.c - see hit_ring.h. */
#include "base/general_regs.h"

#include "record/hit_ring.h"

#include <string.h>

#include "base/atomic.h"
#include "base/trap_path.h"

#define TURN_BYTES sizeof(uint64_t)
#define SKIPS_MAX 4096

TRAP_PATH static uint64_t *turn_of(const struct hit_slots *s, uint64_t position)
{
	return (uint64_t *)(void *)(s->slots + (position & (s->count - 1)) * s->slot_bytes);
}

void hit_ring_begin(const struct hit_slots *s)
{
	atomic_set(&s->ring->next, (uint64_t)0);
	for (uint32_t i = 0; i < s->count; i++)
		atomic_set(turn_of(s, i), (uint64_t)i);
}

TRAP_PATH void *hit_ring_reserve(const struct hit_slots *s, uint64_t *position)
{
	uint64_t next = atomic_get(&s->ring->next);

	for (uint32_t tries = 0; tries < s->count; tries++) {
		uint64_t *turn = turn_of(s, next);
		uint64_t now = atomic_get(turn);
		int is_free = now == next;

		if (!is_free && !(now & HIT_RING_GIVEN_UP)) {
			uint64_t again = atomic_get(&s->ring->next);

			if (again == next)
				return NULL;
			next = again;
			continue;
		}
		if (!atomic_cas(&s->ring->next, &next, next + 1))
			continue;
		if (is_free) {
			*position = next;
			return turn + 1;
		}
		next++;
	}
	return NULL;
}

TRAP_PATH int hit_ring_commit(const struct hit_slots *s, uint64_t position)
{
	uint64_t turn = position;

	return atomic_cas(turn_of(s, position), &turn, position + 1);
}

/* 1: the slot is not to be waited for any more. */
static int is_given_up(struct hit_reader *r, uint64_t *turn, uint64_t found, uint64_t now_ns,
		       uint64_t patience_ns)
{
	if (found & HIT_RING_GIVEN_UP)
		return 1;
	if (!r->waits_since_ns)
		r->waits_since_ns = now_ns;
	if (now_ns - r->waits_since_ns < patience_ns)
		return 0;
	if (!atomic_cas(turn, &found, r->at | HIT_RING_GIVEN_UP))
		return 0;
	r->given_up++;
	return 1;
}

int hit_ring_take(struct hit_reader *r, void *out, uint64_t now_ns, uint64_t patience_ns)
{
	for (int skips = 0; skips < SKIPS_MAX; skips++) {
		uint64_t *turn = turn_of(&r->slots, r->at);
		uint64_t found = atomic_get(turn);
		uint64_t expected = r->at + 1;

		if (found == expected) {
			memcpy(out, turn + 1, r->slots.slot_bytes - TURN_BYTES);
			atomic_cas(turn, &expected, r->at + r->slots.count);
			r->at++;
			r->waits_since_ns = 0;
			return 1;
		}
		if (atomic_get(&r->slots.ring->next) <= r->at)
			return 0;
		if (!is_given_up(r, turn, found, now_ns, patience_ns))
			return 0;
		r->at++;
		r->waits_since_ns = 0;
	}
	return 0;
}
