/* SPDX-License-Identifier: MIT */
/* dap_hit.h - a hit becomes a line in the client's console, or part of a sum. */
#ifndef CLI_DAP_DAP_HIT_H
#define CLI_DAP_DAP_HIT_H

#include "cli/dap/dap.h"
#include "cli/observe/hit_copies.h"

#define DAP_LINES_A_SECOND 200

/* For trapline_poll(): the argument of an event is its arm. */
enum trapline_action dap_hit(const struct trapline_hit *record);
/* In a long request: records of what is armed already do not fill their buffer. */
void dap_hit_meanwhile(struct dap *d);
/* The registers whose text is wanted at a site. */
uint32_t dap_hit_texts(const struct dap_point *p, size_t site);
/* The memory that is wanted at a site. */
void dap_hit_copies(const struct dap_point *p, size_t site, struct hit_copies *c);
/* Whether records of a site are to have a copy of the stack. */
bool dap_hit_wants_stack(const struct dap_point *p, size_t site);
/* The hits of a breakpoint that had no line, as one line. */
void dap_hit_sum(struct dap *d, struct dap_point *p);
/* Sums, when the second is over; returns the milliseconds until the next call. */
int dap_hit_tick(struct dap *d);
/* Sums of all, no matter what the time. */
void dap_hit_sum_all(struct dap *d);
/* So many lines of programs may be added in this second: add them to d->child_lines. */
unsigned int dap_hit_child_lines(struct dap *d);

/* dap_balance.c: where the hits of one breakpoint went. */
void dap_balance_point_say(struct dap *d, const struct dap_point *p);

#endif
