/* SPDX-License-Identifier: MIT */
/* dap_point.h - breakpoints: made from a request, found in the program, armed, removed. */
#ifndef CLI_DAP_DAP_POINT_H
#define CLI_DAP_DAP_POINT_H

#include "cli/dap/dap.h"

/*
 * A row of a request; an equal one of the old list is that one, which stays as it is. NULL: no
 * memory. path is that of a source, or NULL.
 */
struct dap_point *dap_point_take(struct dap *d, enum dap_kind kind, const char *path,
				 const json_t *row);
/* Before a request's rows: none of this kind, and of this source, is kept. */
void dap_points_mark(struct dap *d, enum dap_kind kind, const char *path);
/* Behind them: removes those that were not taken again. */
void dap_points_sweep(struct dap *d);
/* All of them, with their arms. */
void dap_points_free(struct dap *d);
void dap_point_free(struct dap_point *p);

/* `calls.c:12`, `lookup`, `counter`. */
void dap_point_name(const struct dap_point *p, char *buf, size_t n);
/* The form of the response. */
json_t *dap_point_json(const struct dap *d, const struct dap_point *p);
/* Sets why, and that it is not verified. */
__attribute__((format(printf, 2, 3))) void dap_point_refuse(struct dap_point *p, const char *format,
							    ...);
/* `5`: the first five; `> 5`, `>= 5`: those behind; `== 5`: the fifth. False: refused. */
bool dap_point_limits(struct dap_point *p);

#endif
