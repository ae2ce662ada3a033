/* SPDX-License-Identifier: MIT */
/*
 * sort.h - qsort() without an allocation: that of glibc takes one where the rows are more than 1
 * KiB.
 */
#ifndef BASE_SORT_H
#define BASE_SORT_H

#include <stddef.h>

/* Equal rows may change their order. */
void sort_rows(void *rows, size_t count, size_t bytes, int (*compare)(const void *, const void *));

#endif
