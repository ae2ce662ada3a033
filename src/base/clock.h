/* SPDX-License-Identifier: MIT */
/*
 * clock.h - clocks, as nanoseconds. Both functions are safe in a handler and leave errno alone.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#include "base/sys.h"

/* CLOCK_MONOTONIC by the vDSO, without a system call. */
static inline uint64_t clock_now_ns(void)
{
	struct timespec now = { 0, 0 };

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/*
 * Any clock by the system call: for a CPU clock the vDSO makes it too, and code that leaves the
 * vector registers alone cannot call the vDSO. 0: there is no such clock.
 */
static inline __attribute__((always_inline)) uint64_t clock_ns(clockid_t clock)
{
	struct timespec now = { 0, 0 };

	sys2(SYS_clock_gettime, clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
