/* SPDX-License-Identifier: MIT */
/* syscall_names.h - names of system calls by their numbers, as this machine's headers have them. */
#ifndef REPORT_RUN_SYSCALL_NAMES_H
#define REPORT_RUN_SYSCALL_NAMES_H

#include <stdint.h>

/* NULL: there is none, or it is newer than the headers. */
const char *syscall_name(int64_t number);

#endif
