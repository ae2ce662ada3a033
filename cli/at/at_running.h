/* SPDX-License-Identifier: MIT */
/*
 * at_running.h - a point in a process that runs already: its occurrences count from now on.
 *
 * The process is still for the moment in which the counter is set, so that the first occurrence
 * cannot pass. A killed command leaves it running.
 */
#ifndef AT_RUNNING_H
#define AT_RUNNING_H

#include "cli/act/act_stop.h"
#include "report/dwarf/symbols.h"

/* The symbols of the process. 0 or an exit status, line printed. */
int at_running_open(const char *command, pid_t pid, struct symbols **out);

/* All its threads are. 0 or an exit status, line printed: then it runs. */
int at_running_hold(const char *command, pid_t pid, struct act_guard *guard);

#endif
