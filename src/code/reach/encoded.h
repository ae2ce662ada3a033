/* SPDX-License-Identifier: MIT */
/*
 * encoded.h - numbers and pointers of unwind tables, as the DWARF and the Linux Standard Base have
 * them.
 */
#ifndef CODE_REACH_ENCODED_H
#define CODE_REACH_ENCODED_H

#include "code/reach/returns.h"

#define ENCODED_OMITTED 0xff

/* Each reads at *at and moves it behind. 0, or -EILSEQ: not there, or a form that is not known. */
int encoded_bytes(const struct returns_code *code, uint64_t *at, void *to, size_t n);
int encoded_uleb(const struct returns_code *code, uint64_t *at, uint64_t *out);
/* data is what a pointer relative to the table's own data counts from. */
int encoded_pointer(const struct returns_code *code, uint64_t *at, uint8_t encoding, uint64_t data,
		    uint64_t *out);

#endif
