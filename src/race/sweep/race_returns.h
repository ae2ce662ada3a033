/* SPDX-License-Identifier: MIT */
/*
 * race_returns.h - does a call come back? Not in a handler, and only under the lock of the sites.
 */
#ifndef RACE_RETURNS_H
#define RACE_RETURNS_H

#include <stdint.h>

#include "code/insn/insn.h"

/* Objects came or went, or it is the first time. */
void race_returns_renew(void);
/* 0: the call at pc never comes back, or it is not known. */
int race_call_returns(uint64_t pc, const struct insn *insn);
/* 1: the instruction loads the address of a function that never returns: a call may lead there. */
int race_loads_last(uint64_t pc, const uint8_t *code, const struct insn *insn);

#endif
