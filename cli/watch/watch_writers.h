/* SPDX-License-Identifier: MIT */
/*
 * watch_writers.h - `watch --at-writers`: the debug register finds the stores that write a
 * variable, and from then on probes at these evaluate the condition in the process itself.
 */
#ifndef CLI_WATCH_WATCH_WRITERS_H
#define CLI_WATCH_WATCH_WRITERS_H

#include "cli/observe/observe_settings.h"

/* An exit status. */
int watch_writers_run(const struct observe_settings *set);

#endif
