/* SPDX-License-Identifier: MIT */
/*
 * throttle_queue.h - when an account is even, and which of those that wait for it continues then.
 * No clock and no sleep: a test runs them in a time of its own.
 *
 * Threads that woke up at the same moment would all find the account even and draw at once. So they
 * queue, and each sleeps longer by what those before it will draw until their next look. A thread
 * keeps its turn even if it wakes up too early often. To begin again at the end, because another
 * thread drew a little more than its turn, left turns unused and let threads starve.
 */
#ifndef THROTTLE_QUEUE_H
#define THROTTLE_QUEUE_H

#include <stdint.h>

#include "base/atomic.h"

struct throttle_queue {
	uint64_t tickets; /* given */
	uint64_t served;  /* have continued, in any order */
};

/* CLOCK_MONOTONIC in the library. cost: of all that was drawn. Older credit than burst lapses. */
static inline uint64_t throttle_due(uint64_t *origin, uint64_t cost, uint64_t burst_ns,
				    uint64_t now)
{
	uint64_t from = atomic_get(origin);
	uint64_t due = from + cost;
	uint64_t oldest = now - burst_ns;

	if ((int64_t)(due - oldest) >= 0)
		return due;
	/* The thread that loses the race has read an amount that is older than the winner's. */
	atomic_cas(origin, &from, from + (oldest - due));
	return oldest;
}

/*
 * `*held` is the thread's own: its ticket + 1, or 0. A thread that left its sleep by a jump out of
 * a signal handler gives the old one back when it comes again.
 */
static inline uint64_t throttle_queue_enter(struct throttle_queue *q, uint64_t *held)
{
	if (*held)
		atomic_add(&q->served, 1u);
	uint64_t ticket = atomic_add(&q->tickets, 1u);

	*held = ticket + 1;
	return ticket;
}

/* Not if it has been given back in the meantime, by a handler that paid too. */
static inline void throttle_queue_leave(struct throttle_queue *q, uint64_t *held, uint64_t ticket)
{
	if (*held != ticket + 1)
		return;
	*held = 0;
	atomic_add(&q->served, 1u);
}

/* When to look again: turn_ns is what one draws in a turn. */
static inline uint64_t throttle_queue_look_at(const struct throttle_queue *q, uint64_t ticket,
					      uint64_t due, uint64_t turn_ns)
{
	uint64_t served = atomic_get(&q->served);

	/* Others went first: it is the head now, or beside it. */
	return ticket > served ? due + (ticket - served) * turn_ns : due;
}

/*
 * Turns were drawn in part only, or no thread could run: the next one need not wait for its time.
 */
static inline int throttle_queue_is_behind(const struct throttle_queue *q, uint64_t due,
					   uint64_t turn_ns, uint64_t now)
{
	return (int64_t)(now - due) >= (int64_t)turn_ns &&
	       atomic_get(&q->tickets) != atomic_get(&q->served);
}

#endif
