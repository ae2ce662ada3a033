/* SPDX-License-Identifier: MIT */
/* tasks.h - the threads of a process. */
#ifndef BASE_TASKS_H
#define BASE_TASKS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Thread ids of a process, in a mapping of its own. */
struct task_list {
	pid_t *tids;
	size_t count;
	size_t capacity;
};

int tasks_read(pid_t pid, struct task_list *list);

/* The caller's, since a handler's stack has little room. */
struct task_names {
	char bytes[2048] __attribute__((aligned(8)));
};

/* Until act returns another value than 0, which is then the result; else 0 or -errno. AS-Safe. */
int tasks_each(pid_t pid, struct task_names *names, int (*act)(void *arg, pid_t tid), void *arg);
void tasks_free(struct task_list *list);
/*
 * The thread by which /proc and the kernel show the memory of a process: the first that has not
 * ended. What /proc/PID has ends with the first thread of all. pid itself if none is better.
 * AS-Safe.
 */
pid_t tasks_with_memory(pid_t pid);
/* As sys_read_memory(), of a process whose first thread may have ended. AS-Safe. */
ssize_t tasks_read_memory(pid_t pid, uint64_t addr, void *buf, size_t n);

#endif
