/* SPDX-License-Identifier: MIT */
/* thread_names.h - names of threads, where a record does not bring one. */
#ifndef CLI_THREAD_NAMES_H
#define CLI_THREAD_NAMES_H

#include <trapline/trapline.h>

#define THREAD_NAMES 256

struct thread_names {
	struct known_name {
		pid_t tid;
		uint64_t read_ns;
		char name[16];
	} slots[THREAD_NAMES]; /* by tid, the last one wins */
};

/* Gives a hit without a thread's name the one that the thread has now. */
void thread_names_fill(struct thread_names *names, struct trapline_hit *hit);

#endif
