/* SPDX-License-Identifier: MIT */
/*
 * insn_back.h - which instruction made the access that a data watchpoint reported?
 *
 * x86-64 reports a data access after it: the pc is the next instruction's, the registers are those
 * after, and instructions cannot be read backwards for certain. Every start 1 to 15 bytes before
 * the pc is tried. A candidate must decode, end at the pc, access the watched bytes with the
 * registers as they were before it, and leave what is there. The registers before it are known as
 * far as those after it show them. Between several decides how many of the chains of instructions
 * that begin up to 64 bytes before agree on one.
 *
 * A string instruction with rep reports its own address until its last step. A call, a return or a
 * jump reports where it led, so it is not found.
 *
 * Usable in a signal handler: see insn.h. arm64 reports before the access: nothing to look for.
 */
#ifndef INSN_BACK_H
#define INSN_BACK_H

#include "code/insn/insn.h"

#define INSN_BACK_MAX 4	    /* candidates reported */
#define INSN_BACK_WINDOW 64 /* bytes before the pc that vote */

struct insn_back_query {
	const uint8_t *text; /* readable code, at least some bytes before the pc */
	uint64_t text_address;
	size_t text_bytes;
	uint64_t watch; /* the watched bytes */
	uint32_t watch_bytes;
	uint8_t access; /* what the watch reports: enum insn_access, a mask */
	const struct insn_regs *after;
};

enum insn_back_found {
	INSN_BACK_NONE,	     /* no instruction fits: a system call, or text was changed */
	INSN_BACK_AMBIGUOUS, /* several do, and nothing decides */
	INSN_BACK_LIKELY,    /* by the vote of the bytes before */
};

struct insn_back_candidate {
	uint64_t address; /* of the instruction */
	uint64_t touched; /* address of the operand that touched the watch, or of the watch */
	uint32_t size;	  /* of that operand; 0 unknown */
	uint32_t votes;	  /* chains of instructions that end in it */
	uint16_t flags;	  /* enum insn_flag */
	uint8_t length;
	uint8_t kind;	/* enum insn_kind */
	uint8_t access; /* of that operand: enum insn_access */
	/* 1: touched follows from the registers. 0: the instruction has overwritten a register of
	 * the address, or the operand has lanes or no known size; touched is the watch's. */
	uint8_t is_address_known;
	uint8_t operand; /* number in insn.memory */
};

struct insn_back {
	uint8_t found;	 /* enum insn_back_found */
	uint8_t count;	 /* candidates below, the best first */
	uint8_t more;	 /* candidates that did not fit */
	uint32_t chains; /* that voted */
	struct insn_back_candidate candidates[INSN_BACK_MAX];
};

/* Fills *out; returns the number of candidates, found or not. */
int insn_back_x86_64(const struct insn_back_query *query, struct insn_back *out);

#endif
