/* SPDX-License-Identifier: MIT */
/*
 * insn_flow.h - which bytes an instruction of x86-64 writes, and from which others they come.
 *
 * Registers and memory only. Flags, masks, x87 and MMX registers contain nothing here, addresses
 * count for nothing, and a comparison gives nothing. Where an instruction is not known well enough,
 * what it writes counts as new: so a way may be lost, but none is made up.
 */
#ifndef CODE_INSN_INSN_FLOW_H
#define CODE_INSN_INSN_FLOW_H

#include "code/insn/insn.h"

#define INSN_FLOW_TO_MAX 4
#define INSN_FLOW_FROM_MAX 4

enum insn_flow_op {
	INSN_FLOW_NONE,	    /* writes neither registers nor memory that counts */
	INSN_FLOW_CLEAR,    /* what it writes is new */
	INSN_FLOW_MOVE,	    /* to[0] is from[0], byte by byte; the rest of to[0] is 0 */
	INSN_FLOW_REVERSE,  /* the same with the order of the bytes reversed */
	INSN_FLOW_SHIFT,    /* to[0] is from[0], moved up by `shift` bytes; the rest is 0 */
	INSN_FLOW_IF,	    /* a move if the condition is true */
	INSN_FLOW_EXCHANGE, /* to[0] and to[1] are exchanged */
	INSN_FLOW_LANES,    /* each lane of to[0] is computed from the same lane of all from */
	/*
	 * of to[0], which is from[0]: bytes in `kept` stay, those in `zero` are new, others
	 * computed
	 */
	INSN_FLOW_KEEP,
	INSN_FLOW_COMPUTE, /* each byte of all to is computed from all from */
	INSN_FLOW_COPY,	   /* movs: memory 0 is from, memory 1 is to */
	INSN_FLOW_FILL,	   /* stos */
	INSN_FLOW_FETCH,   /* lods */
};

enum insn_flow_file {
	INSN_FLOW_NOTHING,
	INSN_FLOW_GENERAL, /* DWARF number, 8 bytes each */
	INSN_FLOW_VECTOR,  /* 0 to 31, 64 bytes each */
	INSN_FLOW_MEMORY,  /* reg is the number in insn.memory */
};

struct insn_flow_part {
	uint8_t file; /* enum insn_flow_file */
	uint8_t reg;
	uint8_t at;    /* the first byte */
	uint8_t bytes; /* at most 64 */
};

struct insn_flow {
	uint8_t op; /* enum insn_flow_op */
	uint8_t to_count;
	uint8_t from_count;
	uint8_t lane; /* bytes */
	uint8_t kept;
	uint8_t zero;
	int8_t shift;
	uint8_t condition; /* INSN_FLOW_IF: the architecture's number */
	uint8_t clears_to
		/* bytes of the register behind to[i] that become 0 end here; 0: none */
		[INSN_FLOW_TO_MAX];
	struct insn_flow_part to[INSN_FLOW_TO_MAX];
	struct insn_flow_part from[INSN_FLOW_FROM_MAX];
};

/* bytes: as for insn_decode_x86_64(), which took them. 0 or -EILSEQ. */
int insn_flow_x86_64(const void *bytes, size_t available, struct insn_flow *out);

#endif
