/* SPDX-License-Identifier: MIT */
/*
 * hit_ring.h - a ring of records in shared memory: many threads write, one reader takes.
 *
 * A slot has a turn: the position for which it is free, or that position + 1 once it is written. A
 * writer takes the next position, fills the slot, and reports it by a compare-and-swap. A thread
 * can leave in between for ever (longjmp(3) out of a signal handler), so the reader gives such a
 * slot up. It is never used again, because that thread may write to it at any time.
 *
 * The reader keeps its position for itself and believes nothing: it copies a slot once.
 */
#ifndef RECORD_HIT_RING_H
#define RECORD_HIT_RING_H

#include <stddef.h>
#include <stdint.h>

#define HIT_RING_GIVEN_UP (1ull << 63)

struct hit_ring {
	uint64_t next; /* position of the next writer */
};

/* A power of two of slots, of slot_bytes each: the turn, and what is written. */
struct hit_slots {
	struct hit_ring *ring;
	uint8_t *slots;
	uint32_t slot_bytes;
	uint32_t count;
};

/* Before there are writers. */
void hit_ring_begin(const struct hit_slots *slots);

/* Memory of slot_bytes - 8 to write to, and *position; NULL: the ring is full. AS-Safe. */
void *hit_ring_reserve(const struct hit_slots *slots, uint64_t *position);
/* 1; 0: the reader has given it up and counted it. AS-Safe. */
int hit_ring_commit(const struct hit_slots *slots, uint64_t position);

struct hit_reader {
	struct hit_slots slots;
	uint64_t at;
	uint64_t waits_since_ns; /* for the slot at `at`; 0: not */
	uint64_t given_up;	 /* records that no writer completed */
};

/*
 * 1: copied to out, of slot_bytes - 8. 0: nothing is there now. patience_ns: for a writer in
 * between.
 */
int hit_ring_take(struct hit_reader *reader, void *out, uint64_t now_ns, uint64_t patience_ns);

#endif
