/* SPDX-License-Identifier: MIT */
/*
 * block_type.h - what a block of the heap may be: a type of the function that allocated it.
 *
 * Debug information of C and C++ has no types of blocks. A pointer of that function to a type of
 * the block's size is a good guess, and is reported as one, with the name of the pointer.
 */
#ifndef REPORT_LANG_BLOCK_TYPE_H
#define REPORT_LANG_BLOCK_TYPE_H

#include "report/dwarf/symbols.h"
#include "report/dwarf/types.h"

struct block_type {
	const struct type *type; /* of one object; NULL: not known */
	uint64_t count;		 /* of objects */
	const char *pointer;	 /* the name of the variable; NULL: the function's result */
	char function[128];	 /* that has it */
};

enum block_type_found {
	BLOCK_TYPE_FOUND,
	BLOCK_TYPE_NONE,    /* no type, or several; the callers need not be asked */
	BLOCK_TYPE_WRAPPER, /* the function passes it on, or is not known: ask its caller */
};

/* address: in the instruction that calls the allocator. *out is written for BLOCK_TYPE_FOUND. */
enum block_type_found block_type_find(struct symbols *s, uint64_t address, uint64_t bytes,
				      struct block_type *out);

/* The member at an offset of the block: `[3].pos.x`, `total`; empty: it has no name. */
void block_type_member(const struct block_type *t, uint64_t offset, char *buf, size_t n);

#endif
