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
	SIGNATURE_MEMORY,    /* in memory that the register points to */
	SIGNATURE_VECTOR,    /* a floating-point register: hits do not hold those */
	SIGNATURE_CONSTANT,  /* the compiler made a copy for this value */
	SIGNATURE_GONE,	     /* optimised away, or not known */
};

struct signature_value {
	const char *name; /* NULL: it has none */
	const struct type *type;
	enum signature_where where;
	uint8_t reg[2]; /* DWARF numbers */
	uint8_t regs;	/* how many */
	uint64_t stack;
	uint64_t constant;
};

struct signature {
	struct signature_value *parameter;
	size_t count;
	bool is_variadic;
	struct signature_value result; /* type void: none */
};

/* Of the function at a site. 0; -ENOENT: no debug information. *out is released by _free(). */
int signature_find(struct symbols *s, const struct code_site *site, struct signature **out);
void signature_free(struct signature *signature);

/* DWARF number of the nth argument's register by the calling convention; -1: on the stack. */
int signature_argument_register(unsigned int n);
#define SIGNATURE_REGISTER_ARGUMENTS 6 /* shown where no types are known */

#endif
