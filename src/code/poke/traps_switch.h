/* SPDX-License-Identifier: MIT */
/* traps_switch.h - traps that rest and come back. */
#ifndef CODE_POKE_TRAPS_SWITCH_H
#define CODE_POKE_TRAPS_SWITCH_H

#include "code/poke/poke.h"
#include <stdint.h>

/*
 * Take the int3 of some rows of a set away (on 0), or put it back. The rows stay in the table, so
 * that this costs no more than the writes and one sync. Rows that are so already, and those whose
 * text is no longer what it was, are left alone. No row twice. Errors: as traps_set().
 */
int traps_switch(struct trapline_traps *set, const uint32_t *rows, size_t n, int on,
		 struct code_problem *problem);
/*
 * Takes the int3 of all rows away, from within the handler of one: without a lock, and other
 * threads may meet some a moment longer. For a forked child, where no thread can do the above.
 * AS-Safe. 0 or -errno.
 */
int traps_rest_all(struct trapline_traps *set);

#endif
