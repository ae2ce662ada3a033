/* SPDX-License-Identifier: MIT */
/* check_code.h - `trapline check --code`: instructions are changed under threads that run them. */
#ifndef CLI_COMMANDS_CHECK_CODE_H
#define CLI_COMMANDS_CHECK_CODE_H

#include <stdint.h>

/* Prints what happened in that time. CLI_OK: each thread ran what it should; else CLI_NO. */
int check_code(uint64_t for_ns, int json);

#endif
