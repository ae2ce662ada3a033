/* SPDX-License-Identifier: MIT */
/*
 * mappings.h - which files processes have mapped as code, still known when they have ended.
 *
 * The kernel writes a record for each mapping of code, each fork and each exec on each CPU. Those
 * of processes that are followed, and of what descends from them, are kept here. It needs
 * CAP_PERFMON.
 */
#ifndef HOST_MAPPINGS_H
#define HOST_MAPPINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "event/ring/cpu_ring.h"

struct mapped_file {
	uint64_t start;
	uint64_t end;
	uint64_t offset; /* in the file */
	uint64_t inode;
	char *path;
};

struct mapped_process {
	pid_t pid;
	uint32_t threads; /* that live */
	bool is_over;	  /* its end was taken in */
	uint64_t ended_ns;
	bool is_unsure; /* a record of it may be lost: what is known may be of before */
	/* of its files; another one after each change, and no other process has it */
	uint64_t version;
	uint64_t began;		   /* the version at its last exec, or at its fork */
	uint64_t since_ns;	   /* its files were read then: older records are in them */
	struct mapped_file *files; /* by time */
	size_t count;
	size_t room;
};

struct mappings {
	struct cpu_ring *rings;
	int ring_count;
	pid_t parent;	  /* what it forks is followed; 0: none */
	const char *name; /* what begins under it by an exec is followed; NULL: none */
	uint64_t versions;
	struct mapped_process *processes;
	size_t count;
	size_t room;
};

/* 0 or -errno. Closed by mappings_close() in each case. */
int mappings_open(struct mappings *m);
void mappings_close(struct mappings *m);

/* A process that runs, with what it has mapped now. */
void mappings_add(struct mappings *m, pid_t pid);
/* What a process forks is followed, and nothing else of it; 0: no process. */
void mappings_adopt(struct mappings *m, pid_t parent);
/* A program that is executed under this name is followed; "": any. It is kept as a pointer. */
void mappings_follow_name(struct mappings *m, const char *name);

/* Takes in what has happened. */
void mappings_read(struct mappings *m);
/* The same up to a time, of CLOCK_MONOTONIC. */
void mappings_read_until(struct mappings *m, uint64_t time_ns);
/* Nothing is needed of processes that ended before a time. */
void mappings_forget_ended(struct mappings *m, uint64_t before_ns);
/* NULL: it is not followed. Valid until the next call of another function. */
const struct mapped_process *mappings_of(const struct mappings *m, pid_t pid);

#endif
