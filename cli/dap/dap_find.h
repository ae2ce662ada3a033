/* SPDX-License-Identifier: MIT */
/*
 * dap_find.h - from a breakpoint of the client to locations in the program, before anything is
 * armed.
 */
#ifndef CLI_DAP_DAP_FIND_H
#define CLI_DAP_DAP_FIND_H

#include "cli/dap/dap.h"

/*
 * lines: of the point's source, NULL: it is a function. False: refused, with the cause in the
 * point.
 */
bool dap_find_code(struct dap *d, struct dap_point *p, struct code_lines *lines);
bool dap_find_data(struct dap *d, struct dap_point *p);

/* What the data of a name is: the bytes of an expression. 0, or -1 with why. */
int dap_find_expr(struct dap *d, const char *text, const char *access, struct watch_expr *out,
		  char *why, size_t n);

#endif
