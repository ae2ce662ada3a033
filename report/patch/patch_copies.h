/* SPDX-License-Identifier: MIT */
/*
 * patch_copies.h - code of a function beside the function itself, which a replacement does not
 * reach.
 */
#ifndef REPORT_PATCH_PATCH_COPIES_H
#define REPORT_PATCH_PATCH_COPIES_H

#include "report/code/code_sites.h"

/*
 * Adds `main at x.c:12, ...` to the list: inlined copies among the sites. Returns how many there
 * are.
 */
size_t patch_copies_inlined(struct symbols *s, const struct code_sites *sites, char *list,
			    size_t size);

/*
 * The same of all code that is not the function: inlined copies, clones, and pieces that callers
 * call.
 */
size_t patch_copies(struct symbols *s, const struct code_sites *sites,
		    const struct code_site *function, char *list, size_t size);

#endif
