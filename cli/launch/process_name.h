/* SPDX-License-Identifier: MIT */
/* process_name.h - the name of a process, for recordings and messages. */
#ifndef CLI_LAUNCH_PROCESS_NAME_H
#define CLI_LAUNCH_PROCESS_NAME_H

#include "report/safe/clean.h"

#include <stdio.h>
#include <string.h>
#include <sys/types.h>

/* The name is empty when it cannot be read. */
static inline void process_name(pid_t pid, char *name, size_t n)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	FILE *f = fopen(path, "re");
	if (!f || !fgets(name, (int)n, f))
		name[0] = 0;
	name[strcspn(name, "\n")] = 0;
	clean_text(name);
	if (f)
		fclose(f);
}

#endif
