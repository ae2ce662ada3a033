/* SPDX-License-Identifier: MIT */
/*
 * rates.h - what trapline-patrol(1) computes for a fleet. An error happens in one of 10^K blocks.
 */
#ifndef TESTS_RATES_H
#define TESTS_RATES_H

#include <math.h>
#include <stdint.h>

#define RATES_SIGMAS 5.2 /* a right program is beyond them once in five million runs */

/* Samples of a context in one visit, of `blocks` blocks, where one in `mean` is drawn of all. */
static inline double rates_samples(double blocks, double mean)
{
	return blocks / mean + log2(blocks + 1);
}

/* Days until an error is found with this chance. */
static inline double rates_days(double chance, int k, double samples_a_day, double hosts)
{
	return -log(1 - chance) * pow(10, k) / (samples_a_day * hosts);
}

/* Of n, each with this chance, so many is as expected. */
static inline int rates_fits(double found, double n, double chance, double tolerance)
{
	double most = RATES_SIGMAS * sqrt(n * chance * (1 - chance)) + 1 + tolerance * n * chance;

	return fabs(found - n * chance) <= most;
}

#endif
