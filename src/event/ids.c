/* SPDX-License-Identifier: MIT */
/* ids.c - see ids.h. */
#include "event/ids.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/tasks.h"

/* The number of the first pid namespace: PROC_PID_INIT_INO, Linux commit 98f842e675f9 (v3.8). */
#define FIRST_NAMESPACE 0xeffffffcu

int ids_are_first(pid_t pid)
{
	struct stat st;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", pid);
	return !stat(path, &st) && st.st_ino == FIRST_NAMESPACE;
}

void ids_read(pid_t pid, struct ids *out)
{
	char path[64];
	struct stat mine;
	struct stat its;

	memset(out, 0, sizeof(*out));
	if (stat("/proc/self/ns/pid", &mine) || mine.st_ino == FIRST_NAMESPACE)
		return;
	snprintf(path, sizeof(path), "/proc/%d/ns/pid", pid);
	if (stat(path, &its))
		its = mine;
	out->numbered_by.device = its.st_dev;
	out->numbered_by.inode = its.st_ino;
	out->is_further = its.st_ino != mine.st_ino || its.st_dev != mine.st_dev;
}

pid_t ids_read_inner(pid_t pid, pid_t tid)
{
	char text[256];
	pid_t inner = tid;

	snprintf(text, sizeof(text), "/proc/%d/task/%d/status", pid, tid);
	FILE *f = fopen(text, "re");
	if (!f)
		return 0;
	while (fgets(text, sizeof(text), f)) {
		char *last = strrchr(text, '\t');

		if (!strncmp(text, "NSpid:", 6) && last)
			inner = atoi(last);
	}
	fclose(f);
	return inner;
}

pid_t ids_find_thread(pid_t pid, pid_t inner_tid)
{
	struct task_list list = { 0 };
	pid_t found = 0;

	if (!tasks_read(pid, &list))
		for (size_t i = 0; i < list.count && !found; i++)
			if (ids_read_inner(pid, list.tids[i]) == inner_tid)
				found = list.tids[i];
	tasks_free(&list);
	return found;
}
