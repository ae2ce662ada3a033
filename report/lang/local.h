/* SPDX-License-Identifier: MIT */
/*
 * local.h - a variable or parameter of a function as it is at one instruction inside of it.
 *
 * The innermost block that declares the name counts. Before the line of its declaration has run, a
 * variable has what was in its memory before.
 */
#ifndef REPORT_LANG_LOCAL_H
#define REPORT_LANG_LOCAL_H

#include "report/lang/signature.h"

/*
 * Where the variable of that name is. 0; -ENOENT: the function has none of that name; -EINVAL: it
 * has, and it is in no location there, with why.
 */
int local_find(struct symbols *s, const struct code_site *site, const char *name,
	       struct signature_value *out, char *why, size_t n);

/*
 * The first line behind the entry of the function where a parameter is in memory, as `file.c:12`,
 * for one that a hit at the entry does not have. False: none is near.
 */
bool local_in_memory_later(struct symbols *s, const struct code_site *site, const char *name,
			   char *line, size_t n);

#endif
