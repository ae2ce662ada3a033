/* SPDX-License-Identifier: MIT */
/* race_chance.c - see race_chance.h. */
#include "report/race/race_chance.h"

#define LARGE 1e200

/*
 * Failures divide in several ways, from the fewest in `with` to the most. The weight of each
 * follows from the one before, so no factorial is needed. Large numbers are scaled down.
 */
double race_chance(struct race_rate with, struct race_rate without)
{
	const uint64_t failed = with.failed + without.failed;
	const uint64_t least = failed > without.runs ? failed - without.runs : 0;
	const uint64_t most = failed < with.runs ? failed : with.runs;
	double weight = 1;
	double all = 0;
	double extreme = 0;

	if (!with.runs || !without.runs || with.failed > with.runs || without.failed > without.runs)
		return 1;
	for (uint64_t k = least; k <= most; k++) {
		all += weight;
		extreme += k >= with.failed ? weight : 0;
		weight *= (double)(failed - k) * (double)(with.runs - k) / (double)(k + 1) /
			  (double)(without.runs + k + 1 - failed);
		if (all > LARGE) {
			all /= LARGE;
			extreme /= LARGE;
			weight /= LARGE;
		}
	}
	return extreme / all;
}
