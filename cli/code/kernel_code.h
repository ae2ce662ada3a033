/* SPDX-License-Identifier: MIT */
/*
 * kernel_code.h - the kernel's own changes of code go to a code log.
 *
 * The kernel reports each instruction that it changes (PERF_RECORD_TEXT_POKE, Linux 5.9) and each
 * program or trampoline that it makes or frees (PERF_RECORD_KSYMBOL, Linux 5.1). Both want a reader
 * with CAP_PERFMON.
 */
#ifndef CLI_CODE_KERNEL_CODE_H
#define CLI_CODE_KERNEL_CODE_H

#include <stdbool.h>
#include <stdio.h>

struct kernel_code;

/*
 * Begins the kernel's record in the log. NULL: errno is the reason. Every change from then on is
 * written, or counted as lost.
 */
struct kernel_code *kernel_code_open(FILE *log);
/* False: the log takes no more. */
bool kernel_code_drain(struct kernel_code *k);
/* Ends the record. False: the log did not take it. */
bool kernel_code_close(struct kernel_code *k);

#endif
