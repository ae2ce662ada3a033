/* SPDX-License-Identifier: MIT */
/* thread_names.h - names of threads for records that do not have one. */
#ifndef CLI_LAUNCH_THREAD_NAMES_H
#define CLI_LAUNCH_THREAD_NAMES_H

#include <trapline/trapline.h>

#define THREAD_NAMES 256

struct thread_names {
	struct known_name {
		pid_t tid;
		uint64_t read_ns;
		char name[16];
	} slots[THREAD_NAMES]; /* by tid; a newer thread replaces an older one */
};

/* Sets the thread's present name in a hit that has no name. */
void thread_names_fill(struct thread_names *names, struct trapline_hit *hit);

#endif
