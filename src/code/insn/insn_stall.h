/* SPDX-License-Identifier: MIT */
/* insn_stall.h - before which accesses a thread can be stalled. Usable in a signal handler. */
#ifndef INSN_STALL_H
#define INSN_STALL_H

#include "code/insn/insn.h"

/* The operand's address can be computed, and it is not atomic. */
int insn_can_stall(const struct insn *insn, unsigned int operand);

#endif
