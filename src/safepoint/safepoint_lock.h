/* SPDX-License-Identifier: MIT */
/*
 * safepoint_lock.h - a lock that knows its owner, and can wait until a moment.
 *
 * It touches neither errno nor a lock of libc, since another thread may be stopped inside one.
 */
#ifndef SAFEPOINT_SAFEPOINT_LOCK_H
#define SAFEPOINT_SAFEPOINT_LOCK_H

#include <linux/futex.h>
#include <stdint.h>
#include <time.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/sys.h"

#define LOCK_HAS_WAITERS (1u << 31)
#define NO_DEADLINE UINT64_MAX

struct safepoint_lock {
	uint32_t word; /* the owner's tid, 0: free */
};

/* Wait until the word changes, a wake, a signal or the deadline. */
static inline void futex_wait_until(const void *word, uint32_t value, uint64_t deadline_ns)
{
	const struct timespec until = { (time_t)(deadline_ns / 1000000000u),
					(long)(deadline_ns % 1000000000u) };

	sys6(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, value,
	     deadline_ns == NO_DEADLINE ? NULL : &until, NULL, FUTEX_BITSET_MATCH_ANY);
}

static inline void futex_wake(const void *word, int count)
{
	sys3(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, count);
}

static inline int lock_try(struct safepoint_lock *lock, pid_t tid)
{
	uint32_t none = 0;

	return atomic_cas(&lock->word, &none, (uint32_t)tid);
}

static inline pid_t lock_owner(const struct safepoint_lock *lock)
{
	return (pid_t)(atomic_get(&lock->word) & ~LOCK_HAS_WAITERS);
}

/* 0 or -ETIMEDOUT. */
static inline int lock_take(struct safepoint_lock *lock, pid_t tid, uint64_t deadline_ns)
{
	if (lock_try(lock, tid))
		return 0;
	for (;;) {
		uint32_t word = 0;

		/* Others may wait too, so the word reports it. */
		if (atomic_cas(&lock->word, &word, (uint32_t)tid | LOCK_HAS_WAITERS))
			return 0;
		if (deadline_ns != NO_DEADLINE && clock_now_ns() >= deadline_ns)
			return -ETIMEDOUT;
		if (!(word & LOCK_HAS_WAITERS) &&
		    !atomic_cas(&lock->word, &word, word | LOCK_HAS_WAITERS))
			continue;
		futex_wait_until(&lock->word, word | LOCK_HAS_WAITERS, deadline_ns);
	}
}

static inline void lock_give(struct safepoint_lock *lock)
{
	if (atomic_swap(&lock->word, 0) & LOCK_HAS_WAITERS)
		futex_wake(&lock->word, 1);
}

#endif
