/* SPDX-License-Identifier: MIT */
/* record_code.h - `trapline record --code`: the code log of a command goes to a file. */
#ifndef CLI_CODE_RECORD_CODE_H
#define CLI_CODE_RECORD_CODE_H

#include "cli/observe/observe_settings.h"

/* An exit status, with a line printed. */
int record_code_run(const struct observe_settings *set);

#endif
