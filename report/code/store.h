/* SPDX-License-Identifier: MIT */
/*
 * store.h - a store in the code as text of a condition: what it will write, and whether to given
 * bytes.
 */
#ifndef REPORT_CODE_STORE_H
#define REPORT_CODE_STORE_H

#include "report/dwarf/symbols.h"

#define CODE_STORE_TEXT 160

struct code_store {
	uint64_t address; /* of the instruction */
	size_t length;
	/* True at the instruction if it will write the bytes; empty: it always does. */
	char reaches[CODE_STORE_TEXT];
	/*
	 * The value that it will leave, as the unsigned number in the bytes. It may read `before`.
	 */
	char value[CODE_STORE_TEXT];
};

/*
 * The store that ends at `end` and writes len bytes at address. before is the text of what they
 * contain, such as "*(u64 *)4711". 0; -ENOENT: the instruction before `end` is not known.
 * -EOPNOTSUPP: its value or its location is not an expression of numbers in registers, and *why is
 * the reason.
 */
int code_store_find(struct symbols *s, uint64_t end, uint64_t address, size_t len,
		    const char *before, struct code_store *out, const char **why);

#endif
