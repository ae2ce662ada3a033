/* SPDX-License-Identifier: MIT */
/*
 * race_watch.h - the ways to trap what threads do: watches, and the breakpoint that all threads
 * have.
 *
 * Events in the threads are kept and moved, or opened again for each stall; or they are those of
 * the CPUs. The tables are constant, and one is chosen when the search begins in a process, by what
 * it could open.
 */
#ifndef RACE_WATCH_H
#define RACE_WATCH_H

#include <stdint.h>

#include "event/event.h"
#include "race/stall/race_slot.h"

struct race_watch_ops {
	/* 1: no other process uses the watch, until give(). */
	int (*take)(void);
	void (*give)(void);
	/* It traps from now on what slot->target states; -errno. */
	int (*arm)(struct race_slot *slot);
	/* Accesses that leave the old value there need not be reported. */
	void (*pass_over)(const struct race_slot *slot);
	/* It does not trap any more. */
	void (*pause)(struct race_slot *slot);
	/* After pause(), until no thread is in its callback. */
	void (*disarm)(struct race_slot *slot);
	/* How often it has trapped since it was armed; or -errno. */
	int (*count_traps)(const struct race_slot *slot, uint64_t *traps);
	/* 1: an access by a thread of this process may have gone by. */
	int (*may_have_missed)(const struct race_slot *slot);
	/* Threads that may have escaped a watch: as many as began. UINT64_MAX: one is under way. */
	uint64_t (*births)(void);
	/* The breakpoint of all threads; is_birth: of one that the caller is about to create. */
	int (*aim_all)(struct trapline_event *ev, uint64_t pc, int is_birth);
	/* A breakpoint that is not needed now. */
	void (*put_away)(struct trapline_event *ev);
	uint8_t is_of_threads; /* each thread has events of its own */
	uint8_t opens_again;   /* none is open except for a stall, and none may be during a fork */
};

/* Watches that are opened in each thread beside that of the CPUs, and a breakpoint: of so many. */
#define RACE_AGAIN_THREADS 64u

extern const struct race_watch_ops race_watch_kept;
extern const struct race_watch_ops race_watch_again;
extern const struct race_watch_ops race_watch_cpus;

/* That of this process. Never NULL. */
extern const struct race_watch_ops *race_watch;

/* What a stall or a turn needs is opened for it, and none of it may be open during a fork. */
static inline int race_watch_opens_some(void)
{
	return !race_watch->is_of_threads || race_watch->opens_again;
}

#endif
