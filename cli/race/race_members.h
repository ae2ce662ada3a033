/* SPDX-License-Identifier: MIT */
/*
 * race_members.h - which processes are of the run?
 *
 * The processes report their own number, in memory that each of them can write. What trapline does
 * to a process, by its number, needs better evidence: the kernel states that the process maps the
 * memory of this run. Only a process that was started or forked within the run can.
 */
#ifndef CLI_RACE_MEMBERS_H
#define CLI_RACE_MEMBERS_H

#include "race/host/race_ticks.h"
#include "record/race_region.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct race_member {
	pid_t pid;
	/* in clock ticks since the machine started: another process has another one */
	uint64_t start;
};

struct race_members {
	uint64_t device; /* of the file of the memory, whose mapping is the evidence */
	uint64_t inode;
	int map_fd; /* their numbers, for the programs in the kernel; -1: none */
	uint32_t count;
	uint32_t next;		      /* is inspected again */
	uint32_t next_row;	      /* of the table of processes */
	int32_t seen[RACE_PROCESSES]; /* the number in each row that was inspected last */
	struct race_member members[RACE_MEMBERS];
};

/* fd: of the memory. 0 or -errno: then it has no members. */
int race_members_open(struct race_members *m, int fd, int map_fd);
/*
 * From time to time: adds those that the table names and that are, drops those that have ended. One
 * without room counts as region->lost_processes: the programs in the kernel do not sample it.
 */
void race_members_look(struct race_members *m, struct race_region *region);
/* If it is of the run. False: there is no room for it. */
bool race_members_add(struct race_members *m, pid_t pid);
/* pid may be any number. */
bool race_members_have(const struct race_members *m, pid_t pid);
/*
 * Sends a signal to a process that is of the run and did not begin before since, in
 * clock ticks. It cannot reach another one that has the number by then. pid may be any number.
 */
void race_members_signal(const struct race_members *m, pid_t pid, uint64_t since, int signal);
/* When a process began, in clock ticks since the machine started; 0: no process has that number. */
uint64_t race_member_start(pid_t pid);

#endif
