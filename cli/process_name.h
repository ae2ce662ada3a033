/* SPDX-License-Identifier: MIT */
/* process_name.h - stands in a recording, where there is no process to ask. */
#ifndef CLI_PROCESS_NAME_H
#define CLI_PROCESS_NAME_H

#include <stdio.h>
#include <string.h>
#include <sys/types.h>

/* Empty when it cannot be read. */
static inline void process_name(pid_t pid, char *name, size_t n)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	FILE *f = fopen(path, "re");
	if (!f || !fgets(name, (int)n, f))
		name[0] = 0;
	name[strcspn(name, "\n")] = 0;
	if (f)
		fclose(f);
}

#endif
