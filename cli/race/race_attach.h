/* SPDX-License-Identifier: MIT */
/* race_attach.h - a process that runs already is searched. */
#ifndef CLI_RACE_RACE_ATTACH_H
#define CLI_RACE_RACE_ATTACH_H

#include "cli/race/race_launch.h"

/* 0 or an exit status, line printed. */
int race_attach_start(const struct race_cli_settings *set, struct race_run *run);
bool race_attach_is_over(const struct race_run *run);
void race_attach_end(struct race_run *run);

#endif
