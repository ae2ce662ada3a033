/* SPDX-License-Identifier: MIT */
/*
 * signature.h - the parameters and the result of a function, and the registers or stack memory that
 * have them at its entry and after its return.
 */
#ifndef REPORT_LANG_SIGNATURE_H
#define REPORT_LANG_SIGNATURE_H

#include "report/code/code_sites.h"
#include "report/dwarf/types.h"

enum signature_where {
	SIGNATURE_REGISTERS, /* one, or two of them */
	SIGNATURE_STACK,     /* at sp + stack */
	SIGNATURE_MEMORY, /* in memory that the register points to; a result: or the call's first */
	SIGNATURE_FRAME,  /* at the register + stack: local.h alone has these */
	SIGNATURE_PIECES, /* part by part: piece[] */
	SIGNATURE_VECTOR, /* a floating-point register: only hits of probes have those */
	SIGNATURE_CONSTANT, /* the compiler made a copy for this value */
	SIGNATURE_GONE,	    /* optimised away */
	SIGNATURE_UNKNOWN,  /* how it travels depends on what debug information does not state */
};

enum signature_piece_kind {
	SIGNATURE_PIECE_REGISTER,
	SIGNATURE_PIECE_VECTOR,
	SIGNATURE_PIECE_STACK,
	SIGNATURE_PIECE_CONSTANT,
	SIGNATURE_PIECE_GONE,
};

/* Where some bytes of a value are. */
struct signature_piece {
	uint8_t kind;
	uint8_t reg; /* a DWARF number, or that of a vector register from 0 */
	uint8_t size;
	uint16_t offset; /* in the value */
	uint64_t value;	 /* of a constant; from sp on the stack */
};

#define SIGNATURE_PIECES_MAX 24
#define SIGNATURE_BYTES_MAX 192 /* of a value that is shown part by part */

struct signature_value {
	const char *name; /* NULL: it has none */
	const struct type *type;
	enum signature_where where;
	uint8_t reg[2];	 /* DWARF numbers */
	uint8_t regs;	 /* how many */
	uint8_t vector;	 /* the first such register; SIGNATURE_X87: st0 */
	uint8_t vectors; /* 1: all of it is there; 2: each of two has 8 bytes */
	uint64_t stack;
	uint64_t constant;
	uint8_t piece_count;
	struct signature_piece piece[SIGNATURE_PIECES_MAX];
};

#define SIGNATURE_X87 255

/* The register that has the bytes at an offset, and where it begins in the value; -1: none. */
int signature_register_of(const struct signature_value *v, uint64_t offset, uint64_t *begins);

/*
 * The vector register that has the byte at an offset, and where in the register; false: it is in
 * none.
 */
bool signature_vector_of(const struct signature_value *v, uint64_t offset, unsigned int *number,
			 uint64_t *at);
/* One more than the highest number of a vector register that it is in; 0: it is in none. */
unsigned int signature_vectors(const struct signature_value *v);

struct signature {
	struct signature_value *parameter;
	size_t count;
	bool is_variadic;
	bool is_whole;		       /* values are shown with what they contain: Go and Rust */
	bool is_go;		       /* results may be several: more[] */
	bool may_lack_result;	       /* the compiler takes away a result that no caller uses */
	struct signature_value result; /* type void: none */
	struct signature_value *more;  /* results behind the first one, more_count */
	size_t more_count;
};

/*
 * The signature of the function at a site. 0; -ENOENT: no debug information. *out is released by
 * _free().
 */
int signature_find(struct symbols *s, const struct code_site *site, struct signature **out);
void signature_free(struct signature *signature);

/* DWARF number of the nth argument's register by the calling convention; -1: on the stack. */
int signature_argument_register(unsigned int n);
#define SIGNATURE_REGISTER_ARGUMENTS 6 /* shown where no types are known */

#endif
