/* SPDX-License-Identifier: MIT */
/* watch_run.h - a run whose hits are accesses to memory: `trapline watch`, and `record`. */
#ifndef CLI_WATCH_WATCH_RUN_H
#define CLI_WATCH_WATCH_RUN_H

struct observe_settings;

/* Checks the options that are for EXPR, sets set->expr and runs to the end. An exit status. */
int watch_run(struct observe_settings *set);

#endif
