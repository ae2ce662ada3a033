/* SPDX-License-Identifier: MIT */
/*
 * outside_shared.h - what the BPF programs of a search from outside share with the command: two
 * maps with one element each, which the command has mapped.
 *
 * Every member is 8 bytes wide, so that a program needs one kind of load and store.
 */
#ifndef OUTSIDE_SHARED_H
#define OUTSIDE_SHARED_H

#include "record/layout.h"

#include <stdint.h>

#define OUTSIDE_SITES 1024u /* in one turn */
#define OUTSIDE_RANGES 48u
#define OUTSIDE_NO_REG RECORD_REGS /* this register is 0 */

/*
 * The state of a slot is changed by: P the program at a site, C the command, W the program at the
 * watched bytes. What ends a stall is one compare-and-exchange of OPEN: by P, or by W.
 */
enum outside_state {
	OUTSIDE_FREE,	/* C */
	OUTSIDE_TAKEN,	/* P: fills in what it is about to access */
	OUTSIDE_ASKED,	/* P: waits for the watch */
	OUTSIDE_ARMING, /* C: puts the watch on all CPUs */
	OUTSIDE_ARMED,	/* C: it is there */
	OUTSIDE_OPEN,	/* P: the thread is stalled, and an access of another one counts */
	OUTSIDE_OVER,	/* P: the time is over */
	OUTSIDE_HIT,	/* W: another thread made an access */
	OUTSIDE_LEFT,	/* P: the watch came too late; the thread continues */
};

/* A thread at one of the two accesses. */
struct outside_side {
	uint64_t is_whole; /* written last */
	uint64_t time_ns;
	uint64_t pid_tid;
	uint64_t value;	   /* of the watched bytes then */
	uint64_t note;	   /* the second side: address of the last site that this thread reached */
	uint64_t site;	   /* the second side: 1 + number of the site that it is at; 0: behind */
	uint64_t address;  /* ... and what it accesses there */
	uint64_t stack_at; /* aligned to a chunk, at sp or below */
	uint64_t stack_len;
	char thread[16];
	uint64_t regs[RECORD_REGS]; /* in DWARF order */
	uint64_t flags;
	uint8_t stack[RECORD_STACK_MAX];
};

struct outside_slot {
	uint64_t state; /* enum outside_state */
	uint64_t site;	/* number in the turn */
	uint64_t ids;	/* of the stalled thread */
	uint64_t address;
	uint64_t part; /* what is watched of it */
	uint64_t part_len;
	uint64_t writes; /* the stalled access does */
	uint64_t asked_ns;
	uint64_t open_ns;
	uint64_t before; /* value when the stall began */
	uint64_t after;	 /* when it ended */
	struct outside_side first;
	struct outside_side second;
};

/* What is counted, by the programs. */
enum outside_count {
	OUTSIDE_COUNT_HITS,	  /* of sites */
	OUTSIDE_COUNT_EARLY,	  /* ... beyond the budget */
	OUTSIDE_COUNT_SKIPPED,	  /* ... not drawn */
	OUTSIDE_COUNT_STACK,	  /* ... own stack */
	OUTSIDE_COUNT_NO_ADDRESS, /* ... an address that user code cannot have, or not mapped */
	OUTSIDE_COUNT_BUSY,	  /* ... while another thread was stalled */
	OUTSIDE_COUNT_UNARMED,	  /* stalls given up: the watch came too late */
	OUTSIDE_COUNT_STALLS,
	OUTSIDE_COUNT_HELD_NS,	      /* CPUs occupied, given up or not */
	OUTSIDE_COUNT_ARM_NS,	      /* ... of that until the watch was there */
	OUTSIDE_COUNT_WATCH_HITS,     /* accesses to what was watched */
	OUTSIDE_COUNT_WATCH_OWN,      /* ... by the stalled thread */
	OUTSIDE_COUNT_WATCH_EXCLUDED, /* ... from runtimes */
	OUTSIDE_COUNT_WATCH_READS,    /* ... that left the value as it was, beside a read */
	OUTSIDE_COUNT_WATCH_LATE,     /* ... outside of a stall, or after its end */
	OUTSIDE_COUNTS,
};

struct outside_range {
	uint64_t start;
	uint64_t end;
};

struct outside_shared {
	/* Written by the command alone: */
	uint64_t is_open; /* stalls are wanted */
	uint64_t most_hits;
	uint64_t arm_ns;
	uint64_t hot_ns;      /* a stall of a site that many threads reach */
	uint64_t is_by_sites; /* no debug register works: a second access is seen at its site */
	uint64_t range_count; /* code whose accesses do not count as second ones */
	struct outside_range ranges[OUTSIDE_RANGES];
	/* By both: */
	int64_t credit_ns; /* what the budget has left */
	uint64_t turn_hits;
	uint64_t last_cpu; /* of the last hit, */
	uint64_t last_ns;  /* and when it was; */
	uint64_t other_ns; /* when the last one on another CPU was */
	uint64_t is_spent; /* the credit was, in this turn */
	uint64_t counts[OUTSIDE_COUNTS];
	struct outside_slot slot;
};

/* A site of this turn: address = r[base] + (r[index] << shift) + displacement. */
struct outside_trap {
	uint64_t place; /* address of the instruction */
	uint64_t base;	/* or OUTSIDE_NO_REG */
	uint64_t index; /* the same */
	uint64_t shift;
	int64_t displacement;
	uint64_t size;
	uint64_t skew; /* where in it the watch begins */
	uint64_t writes;
	uint64_t is_escaped; /* it may be the own stack: its address was given away */
	uint64_t hold_ns;
	uint64_t calm; /* hits for which the chance of a stall stays */
	uint64_t hits;
	uint64_t stalls;
};

struct outside_traps {
	struct outside_trap rows[OUTSIDE_SITES];
};

#endif
