/* SPDX-License-Identifier: MIT */
/*
 * mem.h - writing one's own text through the kernel, no matter what its protection is: see mem.c.
 */
#ifndef CODE_MEM_H
#define CODE_MEM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* How the kernel was asked: may_trace states whether the second way may be tried. */
struct mem {
	int fd;	   /* -1: not opened */
	int pidfd; /* of the tracee; -1: none */
	int may_trace;
	uint32_t state; /* of the tracee: it writes here, so this stays until mem_close() */
};

#define MEM_NONE                                      \
	{                                             \
		.fd = -1, .pidfd = -1, .may_trace = 1 \
	}

/* /proc/thread-self/mem, or a negative error. */
int mem_open_plain(void);

/* Opens the memory through a tracee: 0, or -errno and nothing is left. */
int mem_open_traced(struct mem *mem);

/* Writes bytes in one system call. 0 or -errno. Only the thread that wrote first may continue. */
int mem_write(struct mem *mem, uint64_t address, const void *bytes, size_t len);

void mem_close(struct mem *mem);

/* Each architecture's own: the process id of the tracee, or -errno. */
long tracee_clone(uint32_t *state, pid_t parent, int *pidfd) __attribute__((visibility("hidden")));

#endif
