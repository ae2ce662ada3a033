/* SPDX-License-Identifier: MIT */
/* uprobe_filter.h - what the kernel's uprobes can do, and how a program knows its process. */
#ifndef UPROBE_FILTER_H
#define UPROBE_FILTER_H

#include <stdint.h>
#include <sys/types.h>

#define UPROBE_MULTI_ATTACH 48 /* BPF_TRACE_UPROBE_MULTI: newer than many headers */

/* BPF_LINK_CREATE of such a link, as in the kernel's union bpf_attr. */
struct uprobe_multi {
	uint32_t prog_fd;
	uint32_t target_fd;
	uint32_t attach_type;
	uint32_t flags;
	uint64_t path;
	uint64_t offsets;
	uint64_t ref_ctr_offsets;
	uint64_t cookies;
	uint32_t count;
	uint32_t multi_flags;
	uint32_t pid;
	uint32_t pad;
};

/* Process ids are seen from a pid namespace: the target's own, and its number there. */
struct uprobe_filter {
	uint64_t device;
	uint64_t inode;
	pid_t pid;
};

int uprobe_filter_read(pid_t pid, struct uprobe_filter *out);

/* Tried once each. AS-Unsafe. */
int uprobe_has_multi(void);

/*
 * Whether the pid of a link means the process: before Linux commit 46ba0e49b642 ("bpf: fix
 * multi-uprobe PID filtering logic"), v6.10, it was the one thread. Without it the program alone
 * filters, and other processes that run the same code pay the trap.
 */
int uprobe_filters_processes(void);

/* A program for uprobes that does nothing: a descriptor or -errno. */
int uprobe_load_nothing(void);

/* Type of the uprobe PMU, or -errno. */
int uprobe_pmu_type(void);

#endif
