/* SPDX-License-Identifier: MIT */
/*
 * code_folded.h - functions that share their code, because a linker or compiler found it to be
 * equal: same_code.h has the rule.
 */
#ifndef REPORT_CODE_CODE_FOLDED_H
#define REPORT_CODE_CODE_FOLDED_H

#include "report/code/code_sites.h"
#include "report/dwarf/same_code.h"

#define CODE_FOLDED_BYTES 600 /* of such a name */
#define CODE_FOLDED_AND SAME_CODE_AND
#define CODE_FOLDED_SAME " (same code)"

/*
 * The names of functions that share their code with others become those of all: `may_write and
 * may_read (same code)`. 0 or -ENOMEM.
 */
int code_folded_label(struct symbols *s, struct code_sites *sites);

/* Does a name have the form that code_folded_label() gives? */
bool code_folded_is(const char *name);

#endif
