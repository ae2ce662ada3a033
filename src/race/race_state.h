/* SPDX-License-Identifier: MIT */
/*
 * race_state.h - the state of the detector in this process, which all its files share.
 *
 * The way of one find:
 *	race_tick.c	a sample of a clock interrupts a thread
 *	race_turn.c	or code has its turn by a breakpoint
 *	race_birth.c	or the creation of a thread is taken for one
 *	race_budget.c	whether there is a stall at all
 *	race_strategy.c	how long it lasts
 *	race_walk.c	one of the accesses ahead is chosen, a breakpoint set on it
 *	race_aim.c	a thread reaches it
 *	race_target.c	what it is about to access, and which part of that is watched
 *	race_slot.c	one of the watches is taken for it
 *	race_stall.c	it is stalled; the address is watched for a second access
 *	race_second.c	the second access: which instruction, and does it count?
 *	race_found.c	what was found becomes a record
 *	race_memory.c	the memory that was raced for: a block of the heap, a stack
 *	race_modules.c	the object that code or memory belongs to
 *	race_outside.c	samples that come from outside, and word of the command's end
 *	race_watch_threads.c, race_watch_cpus.c	how threads and memory are watched
 *	race_end.c	the search ends
 *	race_sites.c	or, in a sweep, a thread reaches one of the sites that are trapped
 *	race_meet.c	at an address, perhaps, that other threads access as well
 *
 * All of it but the start runs inside SIGTRAP. No lock: a slot or an aim belongs to one thread
 * from a compare-and-exchange of its state to the next.
 */
#ifndef RACE_STATE_H
#define RACE_STATE_H

#include <stdint.h>
#include <sys/types.h>

#include "base/atomic.h"
#include "base/table_size.h"
#include "code/insn/insn.h"
#include "event/event.h"
#include "race/race.h"
#include "race/stall/race_slot.h"
#include "record/race_region.h"

#define RACE_SLOTS 3
#define RACE_AIM_ROWS TABLE_SIZE(64, 1)
#define RACE_SEEN TABLE_SIZE(256u, 2u)
#define RACE_TIMERS 2 /* fast, steady */

enum race_aim_state {
	AIM_FREE,
	AIM_BUSY,
	AIM_SET
};

/* A breakpoint of one thread, kept open for it until another needs the row; or one of all. */
struct race_aim {
	uint32_t state;
	pid_t tid;	 /* 0: of no thread, or of all */
	uint32_t missed; /* in a row */
	uint64_t set_ns;
	uint64_t switches; /* of the process's threads, when it was set */
	struct trapline_event *event;
	int fd; /* what event->roots points to */
	uint32_t class;
};

struct race_budget {
	uint64_t started_wall_ns;
	uint64_t started_cpu_ns;
	uint64_t forgiven_ns; /* allowance that was not used in time */
	uint64_t spent_ns;
	uint64_t allowed_ns;	 /* up to now */
	uint64_t sites_ns;	 /* of what was spent: at sites that are multiplexed */
	uint64_t stall_cost_ns;	 /* beside the delay: recent mean */
	uint64_t own_cpu_ns;	 /* used by Trapline, in all threads */
	uint64_t ticks_ns;	 /* spent for samples from outside */
	uint32_t stalls_now;	 /* threads in a stall */
	uint64_t stalls_paid_ns; /* the time up to which theirs was counted */
	uint64_t slack_ns;	 /* how late sleepers wake up: recent mean */
	uint64_t trap_ns;	 /* of one trap and its signal, measured at the start */
	uint64_t parallel_x16;	 /* CPU time per wall time, times 16 */
	uint64_t switched_ns;
	uint32_t timer;		 /* which is on */
	uint32_t is_looked_at;	 /* by race_budget_look() */
	uint64_t threads_at_ns;	 /* when they were counted last, */
	uint64_t threads_births; /* and after how many thread creations */
	uint32_t threads;
	uint32_t own_threads; /* of Trapline, among those */
};

/* A pipe that shows the end of the command, which has its read end. */
struct race_hangup {
	int fd; /* write end; 0: none */
	uint64_t inode;
};

/*
 * Stack of the thread below the caller of trap_has_room(). It is known by -fcallgraph-info=su, with
 * what the decoder (340) and the unwinder (1700) were seen to take.
 * tests/tools/test_race_stacks.sh.
 */
enum {
	RACE_ROOM_TICK = 2560,	 /* to look ahead */
	RACE_ROOM_HOLD = 2688,	 /* to choose, to wait, to record what was found */
	RACE_ROOM_SECOND = 2848, /* to find the instruction before the pc */
};

/* What makes the samples: copies of the command's descriptors. */
struct race_clocks {
	uint32_t count;
	int fds[RACE_CLOCKS];
};

/* Events of the CPUs: copies of the command's descriptors. count 0: none. */
struct race_cpu_events {
	uint32_t count;
	int fds[RACE_CPU_EVENTS][RACE_CPUS];
	struct trapline_event *events[RACE_CPU_EVENTS];
};

enum race_phase {
	RACE_IDLE,
	RACE_STARTING,
	RACE_RUNNING,
	RACE_ENDING,
	RACE_ENDED,
};

struct race_module;

struct race_state {
	struct race_region *region;
	struct race_process *process;
	pid_t pid;
	pid_t observer; /* the command; 0: none, or not visible from here */
	uint32_t phase; /* enum race_phase */
	uint32_t flags; /* enum race_start_flag */
	uint32_t is_stopped;
	const struct race_module *program;
	uint64_t random;
	uint32_t slot_count;
	struct trapline_event *timers[RACE_TIMERS];
	struct race_slot slots[RACE_SLOTS];
	struct race_aim aims[RACE_AIM_ROWS];
	struct race_aim shared_aim; /* of all threads, or of one that creates others and of those */
	uint32_t has_shared_aim;    /* of all */
	struct race_aim turn;	    /* of all, too: code that has its turn; race_turn.c */
	uint32_t has_outwaited;
	pid_t keeper;		/* of a sweep's traps, once it has begun: its tid */
	uint32_t lingering;	/* threads in exit() that wait for others */
	uint64_t birth_next_ns; /* no thread creation is taken for a sample before */
	struct race_budget budget;
	struct race_gate *gate; /* with samples from outside */
	struct race_hangup hangup;
	struct race_clocks clocks;
	struct race_cpu_events cpus;
	uint64_t seen[RACE_SEEN]; /* accesses that were come across lately */
	uint64_t seen_count;
};

extern struct race_state race;

/* By the command, for all processes, or in this one. */
static inline int race_is_stopped(void)
{
	return atomic_get(&race.is_stopped) || atomic_get(&race.region->stop);
}

/* One run of a sweep in which it is recorded at first which thread touches what. */
static inline int race_is_noting(void)
{
	return atomic_get(&race.region->is_noting) != 0;
}

static inline void race_count(enum race_counter what)
{
	counter_add(&race.process->counters[what], 1u);
}

/* Wakes the thread of this process that reads the records, after one was written. */
void race_tell_reader(void);

/* A random number. Threads may call it at the same time. */
uint64_t race_random(void);
/* Otherwise in each search: so hosts do not choose the same. */
void race_random_start(void);

/* The registers of the thread at the hit. */
void race_registers(const struct trapline_hit *hit, struct insn_regs *out);

/*
 * Reads a file of a thread of this process: /proc/self/task/TID followed by `file`, which begins
 * with a slash. Returns the number of bytes, or -errno. It adds no terminating zero.
 */
ssize_t race_read_of_thread(pid_t tid, const char *file, char *out, size_t n);

#endif
