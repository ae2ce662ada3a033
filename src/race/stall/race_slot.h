/* SPDX-License-Identifier: MIT */
/* race_slot.h - a slot: the watch of one access, and the thread that is stalled before it. */
#ifndef RACE_SLOT_H
#define RACE_SLOT_H

#include <stdint.h>
#include <sys/types.h>

#include "base/tasks.h"
#include "event/event.h"
#include "record/race_region.h"

/* A piece of memory that an instruction is about to access. */
struct race_target {
	uint64_t address; /* of the whole access */
	uint32_t size;
	uint8_t access; /* enum race_access */
	uint8_t flags;	/* enum race_side_flag */
	uint64_t part;	/* what is watched of it */
	uint32_t part_len;
	uint8_t length; /* of the instruction */
	uint8_t is_stored_known;
	uint64_t stored; /* in all of the access */
};

enum race_slot_state {
	SLOT_FREE,
	SLOT_TAKEN,   /* being prepared, or being emptied */
	SLOT_OPEN,    /* waiting for a second access */
	SLOT_FILLING, /* the second thread writes */
	SLOT_FILLED,
	SLOT_CLOSED,
};

/* The second access, as its thread wrote it down. */
struct race_caught {
	uint32_t state; /* of race_slot.locked: 0 free, 1 being written, 2 whole */
	uint64_t hit_ns;
	uint64_t new_value; /* after it */
	uint64_t sp;
	struct race_side side;
};

struct race_spots;
struct race_spot;

struct race_watch_ops;

struct race_slot {
	uint32_t state; /* a futex */
	const struct race_watch_ops *ops;
	pid_t tid;
	struct trapline_event *event;
	const void *context; /* of the thread that waits, where it was interrupted */
	struct race_target target;
	uint64_t site;			/* location of the stalled instruction */
	const struct race_spots *spots; /* in a sweep: where it is trapped; */
	struct race_spot *spot;		/* or NULL */
	uint64_t opened_ns;
	uint64_t until_ns;     /* later its owner has left it: by siglongjmp, or dead */
	uint32_t is_explained; /* a thread was seen, but its access does not count */
	uint32_t atomic_seen;
	uint32_t hits;
	uint64_t lost; /* traps of the event that never became a hit */
	uint64_t lost_before;
	uint64_t dropped; /* hits of the event that came late or nested, when it was armed */
	uint64_t delivered_before; /* of the event, when the kernel began to count */
	uint64_t taken_before;	   /* by the event of the CPUs, for Trapline */
	uint64_t counted_before;   /* by it, for any thread */
	uint64_t dropped_before;
	uint64_t births; /* begun when it was armed; UINT64_MAX: one was under way */
	uint64_t old_value;
	uint64_t outwaited_ns; /* beyond its time, while others slept */
	struct race_caught second;
	/*
	 * A locked instruction that changed the value. A plain access may come yet, so it is waited
	 * on.
	 */
	struct race_caught locked;
	struct task_names names; /* of the owner, while it opens the watch */
};

/* A slot for the thread tid; NULL: all watches are in use. */
struct race_slot *race_slot_take(pid_t tid);
/* 1: a watch is free, for this moment. */
int race_has_free_slot(void);
void race_slot_free(struct race_slot *slot);
/* For arm() of a watch whose traps the kernel counts from now on. */
void race_slot_count_again(struct race_slot *slot);
/*
 * Take a slot from an owner that has left it: a thread that has ended or jumped out of its stall,
 * or the calling thread `caller` (0: do not ask). 1: it is SLOT_TAKEN and its watch is off.
 */
int race_slot_reclaim(struct race_slot *slot, pid_t caller, uint64_t now_ns);

#endif
