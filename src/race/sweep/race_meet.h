/* SPDX-License-Identifier: MIT */
/* race_meet.h - in a sweep: at which iteration of a loop do threads access the same address? */
#ifndef RACE_MEET_H
#define RACE_MEET_H

#include <stdint.h>

#include "code/insn/insn.h"

struct race_spot;

/*
 * A thread is about to execute the instruction of `spot`, with these registers. Record what it
 * accesses, and whether another one did; or is it the address that `spot->meets` means?
 */
void race_meet_note(const void *code, const struct race_spot *spot, const struct insn_regs *regs,
		    uint32_t tid);
int race_meet_is_there(const void *code, const struct race_spot *spot,
		       const struct insn_regs *regs);

#endif
