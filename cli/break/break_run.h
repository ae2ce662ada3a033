/* SPDX-License-Identifier: MIT */
/*
 * break_run.h - a run whose hits are calls and executed lines: `trapline break`, and `record
 * --break`.
 */
#ifndef CLI_BREAK_BREAK_RUN_H
#define CLI_BREAK_BREAK_RUN_H

struct observe_settings;

/* Checks the options that are for LOCATION, and runs to the end. An exit status. */
int break_run(struct observe_settings *set);

#endif
