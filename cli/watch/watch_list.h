/* SPDX-License-Identifier: MIT */
/* watch_list.h - `trapline watch --list`. */
#ifndef CLI_WATCH_WATCH_LIST_H
#define CLI_WATCH_WATCH_LIST_H

#include "cli/observe/observe_settings.h"
#include "report/dwarf/symbols.h"

/* Prints the variables that match the operands. An exit status. */
int watch_list(struct symbols *s, const struct observe_settings *set);

#endif
