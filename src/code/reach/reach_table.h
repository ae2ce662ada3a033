/* SPDX-License-Identifier: MIT */
/* reach_table.h - the targets of an indirect jump by a table. Not for handlers. */
#ifndef CODE_REACH_REACH_TABLE_H
#define CODE_REACH_REACH_TABLE_H

#include <stdint.h>

#include "code/reach/reach.h"

/* The targets of the indirect jump at `at`, which is reached, become roots. 0: not known. */
int reach_table(struct reach *r, uint32_t at);

#endif
