/* SPDX-License-Identifier: MIT */
/* median.h - the clock of a bench, and the middle of what it measured. */
#ifndef BENCH_MEDIAN_H
#define BENCH_MEDIAN_H

#include <stdlib.h>
#include <time.h>

static inline double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static inline int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;

	return (x > y) - (x < y);
}

/* It sorts the values, so the smallest one is the first afterwards. */
static inline double median(double *values, int n)
{
	qsort(values, (size_t)n, sizeof(*values), compare_doubles);
	return values[n / 2];
}

#endif
