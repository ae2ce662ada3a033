/* SPDX-License-Identifier: MIT */
/*
 * ids.h - numbers of threads as the command has them.
 *
 * A BPF program gets the numbers of the first pid namespace. In a container these are not the ones
 * that /proc and gettid() have, so a program asks for those of the target's namespace. Where that
 * is a further one, inside the command's, the reader looks the command's number up.
 */
#ifndef EVENT_IDS_H
#define EVENT_IDS_H

#include <sys/types.h>

#include "base/ebpf.h"

struct ids {
	struct ebpf_ids numbered_by;
	int is_further; /* not the command's own namespace */
};

/* 1: the process can see all others, and has the numbers that a BPF program gets. */
int ids_are_first(pid_t pid);

/* What programs that run in a process are to ask for. Cannot fail: at worst the first namespace. */
void ids_read(pid_t pid, struct ids *out);

/* The number of a thread in its process's own namespace; 0: it has ended. */
pid_t ids_read_inner(pid_t pid, pid_t tid);

/* The thread of a process that is inner_tid in the process's own namespace; 0: it has ended. */
pid_t ids_find_thread(pid_t pid, pid_t inner_tid);

#endif
