/* SPDX-License-Identifier: MIT */
/* point_processes.h - which processes have the names of points. */
#ifndef CLI_POINT_POINT_PROCESSES_H
#define CLI_POINT_POINT_PROCESSES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct point_process {
	pid_t pid;
	size_t name; /* index */
};

struct point_processes {
	struct point_process *row; /* by pid */
	size_t count;
	size_t capacity;
};

/* All that have one of the names, those of this command and its children left out. 0 or -ENOMEM. */
int point_processes_read(struct point_processes *p, const char *const *names, size_t count);
void point_processes_free(struct point_processes *p);

/* The files whose code the process can run, and at which inode each is. 0: it cannot be read. */
uint64_t point_process_files(pid_t pid);

#endif
