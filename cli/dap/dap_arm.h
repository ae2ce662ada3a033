/* SPDX-License-Identifier: MIT */
/* dap_arm.h - the events of breakpoints: opened, closed, and what became of their hits. */
#ifndef CLI_DAP_DAP_ARM_H
#define CLI_DAP_DAP_ARM_H

#include "cli/dap/dap.h"

/*
 * Arms breakpoints in code that have sites. Those that can share an event do where they are many.
 * Each is then verified, or refused with the cause.
 */
void dap_arm_code(struct dap *d, struct dap_point **point, size_t n);
void dap_arm_data(struct dap *d, struct dap_point *p);

/* Takes the point out of its arm: the last one closes it. Its hits so far are reported. */
void dap_arm_leave(struct dap *d, struct dap_point *p);

/* No hit begins any more, and those that have begun are delivered. */
void dap_arms_stop(struct dap *d);
/* Paused arms continue when it is time; returns the milliseconds until the next call. */
int dap_arms_tick(struct dap *d);

/* Where the hits of each breakpoint went: rows of JSON, and lines in the console. */
json_t *dap_balance(struct dap *d);
void dap_balance_say(struct dap *d);

#endif
