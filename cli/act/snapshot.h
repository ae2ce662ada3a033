/* SPDX-License-Identifier: MIT */
/*
 * snapshot.h - a frozen copy of a process, made by fork inside it.
 *
 * The copy has the memory and one thread, which is where the forking thread is. It is stopped, in a
 * session of its own, and no child of the process: neither its parent nor its own wait(2) sees it.
 */
#ifndef CLI_ACT_SNAPSHOT_H
#define CLI_ACT_SNAPSHOT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct snapshot {
	pid_t pid;	       /* 0: it is used up */
	uint64_t fork_ns;      /* how long the thread was stopped for it */
	uint64_t continued_ns; /* CLOCK_MONOTONIC: when the process was continued; 0: it was not */
	int left;	       /* the process has a zombie that it cannot see */
};

/* Called with a copy, in another thread. */
struct snapshot_use {
	void (*use)(pid_t copy, void *arg);
	void *arg;
};

/* What can be found out before a hit, so that the process is not stopped for it. */
void snapshot_prepare(pid_t pid);

/*
 * The process is stopped, and tid is one of its threads. It is continued in between, if
 * `continues`. With `use` the copy ends when use() returns, or when this command dies; without it,
 * it stays. 0, or -errno with the reason in why.
 */
int snapshot_take(pid_t pid, pid_t tid, int continues, const struct snapshot_use *use,
		  struct snapshot *out, char *why, size_t n);

#endif
