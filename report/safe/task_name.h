/* SPDX-License-Identifier: MIT */
/* task_name.h - the name of a thread, as it is now. */
#ifndef REPORT_SAFE_TASK_NAME_H
#define REPORT_SAFE_TASK_NAME_H

#include <stddef.h>
#include <sys/types.h>

/* A clean text of at most n bytes with its end; empty when it cannot be read. n is above 0. */
void task_name(pid_t pid, pid_t tid, char *name, size_t n);

#endif
