/* SPDX-License-Identifier: MIT */
/*
 * race.h - the race detector, inside the target.
 *
 * A thread that is about to make an access is stalled, and its address is watched in the whole
 * process. An access by another thread during the stall is a race. In a correctly synchronized
 * program no other thread can access the location in between. The detector does not model locks,
 * and does not depend on how the program was built.
 *
 * Results go into a region shared with trapline (record/race_region.h), which explains them.
 */
#ifndef RACE_RACE_H
#define RACE_RACE_H

#include <pthread.h>

#include "record/race_region.h"

enum race_start_flag {
	RACE_IS_LATE =
		/*
		 * threads run already, and their creation is not reported: see race_birth_begins()
		 */
		1,
	RACE_OWNS_REGION = 2, /* unmap it when the search has ended */
	RACE_HAS_READER =
		4, /* a thread of the library, in this process, waits at the futex of region */
	RACE_HAS_TICKS = 8,  /* samples come from outside: see race_gate */
	RACE_IS_FORKED = 16, /* by one that is late: it has its gate already */
};

/*
 * race_start - begin in this process, for all its threads and later ones.
 *
 * The row of the process in the region also has the cause of a failure. Errors: EBUSY a
 * search runs already; EPROTO the region is of another version; ECANCELED the search is
 * over; others as trapline_watch(). After an error the caller keeps the region. Not in a
 * handler.
 */
int race_start(struct race_region *region, uint32_t flags);

/* This process cannot be searched: its row in the region gets the cause. */
void race_refuse(struct race_region *region, enum race_step step, int err);

/*
 * race_stop - end the search in this process: no event, breakpoint or descriptor of it
 * stays.
 *
 * Waits for stalls to end, at most some seconds. why: RACE_STEP_NONE, or the cause to
 * report. Does nothing if no search runs. 0, or -EBUSY: a thread left a callback by a
 * jump, and the region must stay; or, for RACE_STEP_OWN_TRAP, -EAGAIN: a sweep's traps could
 * not be taken away yet. AS-Safe, but not from inside the detector's own
 * callbacks.
 */
int race_stop(enum race_step why);
/*
 * The command is gone, and no sample may ever come again: the search ends. Now and then, in a
 * thread of Trapline.
 */
void race_end_if_left(void);
/* 1: the command has ended the search, and this process has not yet. */
int race_is_asked_to_end(void);
/* 1: no search runs, nor has one for so long. AS-Safe. */
int race_has_ended_for(uint64_t ns);

/*
 * race_sites_begin - a sweep traps its sites now: the first thread is about to be created.
 *
 * create is libc's pthread_create(), for the thread that keeps the traps. Does nothing where no
 * sweep was asked for, or when it has been done. Not in a handler.
 */
typedef int (*race_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
void race_sites_begin(race_create create);

/*
 * race_use_heap - set the function that finds a heap block: called inside SIGTRAP after a
 * race was found, with an address; 0 and *out, frames as addresses, or -ENOENT. Stays in
 * forked children.
 */
typedef int (*race_heap_finder)(uint64_t address, struct race_heap *out);
void race_use_heap(race_heap_finder find);
/* A counter of this process, to be raised by others; NULL: the search has not begun. */
uint64_t *race_counter_of(enum race_counter what);

/* Around the creation of a thread, which begins at start. AS-Safe. */
void race_birth_begins(uint64_t start);
void race_birth_ends(void);

/*
 * Descriptors of the search: is fd one, and the lowest n from one on, ascending. Not in a handler.
 */
int race_owns_descriptor(int fd);
int race_descriptors(int from, int *fds, int n);

/* Before a fork, and after it in the parent. Not in a handler. */
void race_fork_begins(void);
void race_fork_ended(void);
/*
 * The calling thread is the only one of a forked child: begin again there. As
 * race_start().
 */
int race_forked(void);

#endif
