/* SPDX-License-Identifier: MIT */
/* race_call_targets.h - the memory that a call of a libc function will access for its caller. */
#ifndef RACE_CALL_TARGETS_H
#define RACE_CALL_TARGETS_H

#include "code/insn/insn.h"
#include "race/stall/race_slot.h"
#include "race/sweep/race_calls.h"

/* What the call will access first. 0, or -ENOENT: nothing for certain. */
int race_find_call_target(enum race_call kind, const struct insn_regs *regs,
			  struct race_target *out);

#endif
