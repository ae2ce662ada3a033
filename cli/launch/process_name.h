/* SPDX-License-Identifier: MIT */
/* process_name.h - the name of a process, for recordings and messages. */
#ifndef CLI_LAUNCH_PROCESS_NAME_H
#define CLI_LAUNCH_PROCESS_NAME_H

#include "report/safe/task_name.h"

/* The name is empty when it cannot be read. */
static inline void process_name(pid_t pid, char *name, size_t n)
{
	task_name(pid, pid, name, n);
}

#endif
