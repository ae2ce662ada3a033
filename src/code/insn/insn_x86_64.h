/* SPDX-License-Identifier: MIT */
/* insn_x86_64.h - for the files that look into the bytes of x86-64 instructions themselves. */
#ifndef INSN_X86_64_H
#define INSN_X86_64_H

#include "code/insn/insn.h"

/* From a register's number in the encoding to DWARF's. */
static inline uint8_t insn_x86_64_reg(unsigned int encoding)
{
	static const uint8_t low[] = { INSN_RAX, INSN_RCX, INSN_RDX, INSN_RBX,
				       INSN_RSP, INSN_RBP, INSN_RSI, INSN_RDI };

	return encoding < 8 ? low[encoding] : (uint8_t)encoding;
}

#endif
