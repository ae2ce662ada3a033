/* SPDX-License-Identifier: MIT */
/* probe_flags_x86_64.c - whether a filter may change the flags: see code_probe.h. */
#include "code/insn/insn.h"
#include "code/probe/code_probe.h"

#define FLAGS_LOOK_INSNS 16

/* add, or, adc, sbb, and, sub, xor, cmp, test: all flags are new. */
static int writes_all_flags(const struct insn *insn, const uint8_t *bytes)
{
	uint8_t opcode = bytes[insn->opcode_at];

	if (insn->opcode_bytes != 1)
		return 0;
	if (opcode < 0x40 && (opcode & 7) < 6)
		return 1;
	return opcode == 0x80 || opcode == 0x81 || opcode == 0x83 || opcode == 0x84 ||
	       opcode == 0x85 || opcode == 0xa8 || opcode == 0xa9;
}

int code_probe_flags_are_live(const uint8_t *text, size_t available)
{
	struct insn insn;
	size_t at = 0;

	for (int i = 0; i < FLAGS_LOOK_INSNS; i++, at += insn.length) {
		if (insn_decode(text + at, available - at, &insn) || insn.flags & INSN_READS_FLAGS)
			return 1;
		if (writes_all_flags(&insn, text + at))
			return 0;
		/* Code in assembly may pass flags to what it calls or returns to. */
		if (insn.kind != INSN_OTHER && insn.kind != INSN_NOP && insn.kind != INSN_LANDING)
			return 1;
	}
	return 1;
}
