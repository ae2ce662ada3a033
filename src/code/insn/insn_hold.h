/* SPDX-License-Identifier: MIT */
/* insn_hold.h - before which accesses a thread can be stalled. Usable in a signal handler. */
#ifndef INSN_HOLD_H
#define INSN_HOLD_H

#include "code/insn/insn.h"

/* The operand's address can be computed, and it is not atomic. */
int insn_is_holdable(const struct insn *insn, unsigned int operand);

#endif
