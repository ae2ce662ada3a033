/* SPDX-License-Identifier: MIT */
/*
 * code_folded.h - functions that share their code, because a linker or compiler found it to be equal.
 *
 * Two names of one address are two functions if each has a definition of its own in the debug information.
 * Where none of them has one, a weak name of C, and a name that differs in underscores or in a 64 at its
 * end, is another name of one function. What has the same readable name is the same function, as the
 * symbols of one constructor are.
 */
#ifndef REPORT_CODE_CODE_FOLDED_H
#define REPORT_CODE_CODE_FOLDED_H

#include "report/code/code_sites.h"

#define CODE_FOLDED_BYTES 600 /* of such a name */
#define CODE_FOLDED_AND " and "
#define CODE_FOLDED_SAME " (same code)"

/*
 * The names of functions that share their code with others become those of all: `may_write and may_read
 * (same code)`. 0 or -ENOMEM.
 */
int code_folded_label(struct symbols *s, struct code_sites *sites);

/* Does a name have the form that code_folded_label() gives? */
bool code_folded_is(const char *name);

#endif
