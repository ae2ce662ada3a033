/* SPDX-License-Identifier: MIT */
/* reach_table.h - the targets of an indirect jump by a table. Not for handlers. */
#ifndef CODE_REACH_REACH_TABLE_H
#define CODE_REACH_REACH_TABLE_H

#include <stdint.h>

#include "code/reach/reach.h"

/*
 * How many values the register index can have at past[row - 1], by the comparison or mask before
 * that. past has the instructions before a jump, the last one first. 0: not known.
 */
uint32_t reach_bound(const struct reach_past *past, uint32_t n, uint8_t index, uint32_t row);
/* The targets of the indirect jump at `at`, which is reached, become roots. 0: not known. */
int reach_table(struct reach *r, uint32_t at);

#endif
