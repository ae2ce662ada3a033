/* SPDX-License-Identifier: MIT */
/*
 * stress.h - how much of its work a test does. TRAPLINE_STRESS is a percentage, 100 if not set:
 * scripts/test sets 20, scripts/test --all sets 50, an emulated machine has 2. A percentage over 100 is
 * for a long search for a rare failure.
 */
#ifndef TESTS_STRESS_H
#define TESTS_STRESS_H

#include <stdint.h>
#include <stdlib.h>

/* The share of rounds, threads or milliseconds; at least 1. */
static inline unsigned int scaled(unsigned int count)
{
	const char *percent = getenv("TRAPLINE_STRESS");
	uint64_t part = percent ? count * strtoull(percent, NULL, 10) / 100 : count;

	return part ? (unsigned int)part : 1;
}

#endif
