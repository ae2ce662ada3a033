/* SPDX-License-Identifier: MIT */
/* aligned.h - a range as naturally aligned parts, which is what a debug register can watch. */
#ifndef BASE_ALIGNED_H
#define BASE_ALIGNED_H

#include <stdint.h>

#define ALIGNED_PART_MAX 8u

/* The largest aligned power of two at the start of a range that is not empty. */
static inline uint32_t aligned_part(uint64_t address, uint64_t len)
{
	uint32_t part = ALIGNED_PART_MAX;

	while (part > len || address % part)
		part /= 2;
	return part;
}

#endif
