/* SPDX-License-Identifier: MIT */
/* task_name.c - see task_name.h. */
#include "report/safe/task_name.h"

#include "report/safe/clean.h"

#include <stdio.h>
#include <string.h>

void task_name(pid_t pid, pid_t tid, char *name, size_t n)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", pid, tid);
	FILE *f = fopen(path, "re");
	if (!f || !fgets(name, (int)n, f))
		name[0] = 0;
	name[strcspn(name, "\n")] = 0;
	clean_text(name);
	if (f)
		fclose(f);
}
