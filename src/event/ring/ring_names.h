/* SPDX-License-Identifier: MIT */
/*
 * ring_names.h - names of threads, kept beside the kernel's rings, whose records have none.
 *
 * The rings themselves report them: a thread is created with its creator's name and may take
 * another. So a thread that has ended by the time its records are read still has its name. The news
 * come from several rings in no order: what is older than what is known is dropped.
 */
#ifndef RING_NAMES_H
#define RING_NAMES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define RING_NAME_BYTES 16

struct ring_name {
	uint32_t tid; /* 0: free */
	uint64_t since_ns;
	char name[RING_NAME_BYTES];
};

struct ring_names {
	struct ring_name *slots;
	size_t count;
	size_t room;
};

/* The names of all threads of a process, as they are now. */
void ring_names_read(struct ring_names *names, pid_t pid);
void ring_names_set(struct ring_names *names, uint32_t tid, const char *name, uint64_t since_ns);
void ring_names_born(struct ring_names *names, uint32_t tid, uint32_t creator, uint64_t since_ns);
/* NULL: not known. */
const char *ring_names_find(const struct ring_names *names, uint32_t tid);
void ring_names_free(struct ring_names *names);

/* A thread's name from /proc; empty: it has ended. */
void ring_names_read_one(pid_t pid, pid_t tid, char name[RING_NAME_BYTES]);

#endif
