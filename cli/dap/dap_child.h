/* SPDX-License-Identifier: MIT */
/*
 * dap_child.h - programs whose output goes to the client: the process that was launched, and
 * commands.
 */
#ifndef CLI_DAP_DAP_CHILD_H
#define CLI_DAP_DAP_CHILD_H

#include "cli/dap/dap.h"

/*
 * Between these two, what is started writes to pipes, which the slot reads. NULL: no slot or
 * descriptor is free, with why. After a failed start the slot is closed by dap_child_close().
 */
struct dap_child *dap_child_begin(struct dap *d, char *why, size_t n);
void dap_child_started(struct dap_child *c, pid_t pid, bool is_command);
void dap_child_close(struct dap_child *c);

/* `trapline WORD...` beside the session. gives_races: as JSON lines. False with why. */
bool dap_child_command(struct dap *d, char **words, bool gives_races, char *why, size_t n);
/* May its output be read now? */
bool dap_child_is_read(struct dap *d, const struct dap_child *c);
/* Passes on what can be read now. */
void dap_child_read(struct dap *d, struct dap_child *c, int which);
/* Commands that have ended leave their slot. */
void dap_child_reap(struct dap *d);
/* Asks the commands to end; returns how many there are. */
size_t dap_child_stop(struct dap *d);
/* They end now. */
void dap_child_end(struct dap *d);
/*
 * The process continues without a reader: a small process reads its output instead of this one.
 */
void dap_child_leave(struct dap *d);

#endif
