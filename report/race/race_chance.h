/* SPDX-License-Identifier: MIT */
/* race_chance.h - two rates of failures: how probable is such a difference by chance alone? */
#ifndef RACE_CHANCE_H
#define RACE_CHANCE_H

#include <stdint.h>

struct race_rate {
	uint64_t failed;
	uint64_t runs;
};

/*
 * Fisher's exact test, one-sided: the probability that at least so many of all failures fall into
 * `with`, if both rates are the same. 1 where there is nothing to compare.
 */
double race_chance(struct race_rate with, struct race_rate without);

#endif
