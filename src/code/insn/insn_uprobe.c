/* SPDX-License-Identifier: MIT */
/*
 * insn_uprobe.c - see insn_uprobe.h.
 *
 * arch/x86/kernel/uprobes.c refuses lock and the segment prefixes without effect. Then it looks for
 * the opcode in its table of one-byte opcodes.
 */
#include "code/insn/insn_uprobe.h"

#include "code/insn/insn.h"

#define REFUSED_PREFIX 0x100

static const unsigned char prefixes_good[] = { 0x64, 0x65, 0x66, 0x67, 0xf2, 0xf3 };
static const unsigned char prefixes_bad[] = { 0x26, 0x2e, 0x36, 0x3e, 0xf0 };
static const unsigned char opcodes_bad[] = { 0x06, 0x07, 0x0e, 0x16, 0x17, 0x1e, 0x1f, 0x27,
					     0x2f, 0x37, 0x3f, 0x60, 0x61, 0x62, 0x6c, 0x6d,
					     0x6e, 0x6f, 0x82, 0x9a, 0xcc, 0xcd, 0xce, 0xcf,
					     0xd4, 0xd5, 0xd6, 0xe4, 0xe5, 0xe6, 0xe7, 0xea,
					     0xec, 0xed, 0xee, 0xef, 0xf1, 0xf4, 0xfa, 0xfb };

static int is_one_of(unsigned char byte, const unsigned char *set, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (set[i] == byte)
			return 1;
	return 0;
}

/* XOP has the first byte of a pop, whose field for the map is below 8. */
static int has_vector_prefix(const unsigned char *b, size_t available)
{
	if (!available)
		return 0;
	if (b[0] == 0x8f)
		return available > 1 && (b[1] & 0x1f) >= 8;
	return b[0] == 0xc4 || b[0] == 0xc5 || b[0] == 0x62;
}

unsigned int insn_uprobe_refusal_x86_64(const void *bytes, size_t available)
{
	const unsigned char *b = bytes;
	size_t at = 0;

	for (; at < available; at++) {
		if (is_one_of(b[at], prefixes_bad, sizeof(prefixes_bad)))
			return REFUSED_PREFIX | b[at];
		if (!is_one_of(b[at], prefixes_good, sizeof(prefixes_good)))
			break;
	}
	if (has_vector_prefix(b + at, available - at))
		return INSN_UPROBE_VECTOR;
	if (at < available && (b[at] & 0xf0) == 0x40) /* REX */
		at++;
	return at < available && is_one_of(b[at], opcodes_bad, sizeof(opcodes_bad)) ? b[at] : 0;
}

/* mov, lea and xchg from a register to itself. */
static int insn_keeps_register(const unsigned char *b, const struct insn *insn)
{
	static const unsigned char opcodes[] = { 0x87, 0x89, 0x8b, 0x8d };
	unsigned char displaced = 0;

	if (insn->opcode_bytes != 1 || !is_one_of(b[insn->opcode_at], opcodes, sizeof(opcodes)) ||
	    insn->memory_count)
		return 0;
	for (int i = 0; i < insn->displacement_bytes; i++)
		displaced |= b[insn->displacement_at + i];
	return !displaced && insn->writes && insn->reads == insn->writes;
}

unsigned int insn_uprobe_nop_x86_64(const void *bytes, size_t available)
{
	struct insn insn;

	if (insn_decode_x86_64(bytes, available, &insn))
		return 0;
	if (insn.kind == INSN_NOP || (insn.kind == INSN_JUMP && insn.target == insn.length) ||
	    insn_keeps_register(bytes, &insn))
		return insn.length;
	return 0;
}
