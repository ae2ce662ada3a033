/* SPDX-License-Identifier: MIT */
/*
 * race.h - data races, caught in the act.
 *
 * A thread that is about to make an access is held there, its address is watched in the whole
 * process, and an access by another thread meanwhile is a race: a right program lets nobody
 * come between. Needs to know nothing of locks, and nothing of how the program was built.
 *
 * This runs inside the target. What it finds goes into a region shared with the command that
 * started the program (record/race.h), which explains it.
 */
#ifndef TOOLS_RACE_H
#define TOOLS_RACE_H

#include <pthread.h>

#include "record/race.h"

enum race_start_flag {
	RACE_IS_LATE = 1,     /* threads run already, and births are not told: see race_birth_begins() */
	RACE_OWNS_REGION = 2, /* unmap it when the search has ended */
	RACE_HAS_READER = 4,  /* a thread of ours, in this process, waits at region.told */
	RACE_HAS_TICKS = 8,   /* ticks come from outside: see race_gate */
	RACE_IS_FORKED = 16,  /* by one that is late: it has its gate already */
};

/*
 * race_start - begin in this process, all its threads and those to come.
 *
 * What could not be done is told by the process's row in the region too. Errors: EBUSY one runs
 * already; EPROTO the region is another version's; others as trapline_watch(). After an error the
 * region is the caller's. Not in a handler.
 */
int race_start(struct race_region *region, uint32_t flags);

/* This process cannot be searched: leave word of it for the command. */
void race_refuse(struct race_region *region, enum race_step step, int err);

/*
 * race_stop - end the search in this process: no event, breakpoint or descriptor of it stays.
 *
 * Waits for stalls to end, at most some seconds. why: RACE_STEP_NONE, or what the command shall tell
 * as the reason. Does nothing where none runs. 0, or -EBUSY: a thread has left a callback without a
 * word, and the region must stay. AS-Safe, but not from inside our own callbacks.
 */
int race_stop(enum race_step why);

/*
 * race_sites_begin - a sweep traps its sites now: the first thread is about to be created.
 *
 * create is libc's pthread_create(), for the thread that keeps the traps. Does nothing where no
 * sweep was asked for, or when it has been done. Not in a handler.
 */
typedef int (*race_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
void race_sites_begin(race_create create);

/*
 * race_use_heap - who knows the blocks of the heap: asked inside SIGTRAP when a race was caught, with
 * an address; 0 and *out, frames as addresses, or -ENOENT. Stays in forked children.
 */
typedef int (*race_heap_finder)(uint64_t address, struct race_heap *out);
void race_use_heap(race_heap_finder find);
/* A counter of this process, to be raised by others; NULL: the search has not begun. */
uint64_t *race_counter_of(enum race_counter what);

/* Around the creation of a thread, which begins at start. AS-Safe. */
void race_birth_begins(uint64_t start);
void race_birth_ends(void);

/* Descriptors of the search: is fd one, and all of them, ascending. Not in a handler. */
int race_owns_descriptor(int fd);
int race_descriptors(int *fds, int n);

/* Before a fork, and after it in the parent. Not in a handler. */
void race_fork_begins(void);
void race_fork_ended(void);
/* The calling thread is the only one of a forked child: begin anew there. As race_start(). */
int race_forked(void);
/* The same, and there it does not go on. */
void race_forget(void);

/*
 * race_report.c: grade by what the record tells alone, 0 A to 2 C; and the race as a line of JSON as
 * `trapline race --json` prints it, without what takes symbols. Returns its length, at most n - 1.
 */
uint32_t race_grade_plain(struct race_region *region, const struct race_record *record);
size_t race_report_line(const struct race_region *region, const struct race_record *record,
			uint32_t grade, char *line, size_t n);
/* The file of a place, NULL: none; *offset is the address in it. */
const char *race_file_of(const struct race_region *region, uint64_t place, uint64_t *offset);

#endif
