/* SPDX-License-Identifier: MIT */
/* race_sites.h - a thread reaches a trapped site: stall it there, or let it continue. */
#ifndef RACE_SITES_H
#define RACE_SITES_H

#include <stdint.h>

#include "base/table_size.h"
#include "record/race_region.h"

struct race_module;
struct trapline_trap_hit;
struct trapline_traps;

enum race_spot_state {
	SPOT_ARMED,
	SPOT_ASKED, /* in the queue of those to be taken away */
	SPOT_RESTING,
};

/* A site, in this process. */
struct race_spot {
	uint64_t address;
	struct race_site *site; /* or NULL: no room */
	uint32_t state;		/* enum race_spot_state */
	uint32_t pointless;	/* how often it was tried for nothing */
	uint64_t armed_ns;
	/* Since it was armed: */
	uint32_t passes;
	uint32_t holds;
	uint32_t last_tid;  /* the thread that was stalled last */
	uint32_t first_tid; /* the thread that came first, where another one is to be stalled */
	/* Drawn when it was armed: */
	uint32_t skip;	 /* occurrences before the first stall */
	uint32_t wanted; /* threads to be stalled, most often at once; 0: it goes off */
	uint32_t notes;	 /* ... after this many occurrences, which are recorded */
	/* a thread that reaches an address that ends so is stalled; 0: any thread */
	uint32_t meets;
	uint8_t is_witness;	/* locked: not stalled, what it accesses is remembered */
	uint8_t is_escaped;	/* of the own frame, but its address was given away */
	uint8_t is_by_free_rbp; /* through rbp, which is not the frame there */
	uint8_t call;		/* enum race_call: a call that touches memory */
	uint8_t is_read;	/* it writes nothing */
	uint8_t is_for_second; /* drawn: the first thread to come is not stalled, but another one */
};

#define RACE_SPOTS_MAX TABLE_SIZE(2097152u, 8u) /* in a process, at once */
#define RACE_SPOT_SETS TABLE_SIZE(1024u, 2u)
#define RACE_SPOT_QUEUE TABLE_SIZE(4096u, 2u) /* a power of two */

/* Those of one module. */
struct race_spots {
	const struct race_module *module;
	struct trapline_traps *traps;
	uint64_t start; /* of the module, as it was found */
	uint32_t number;
	uint32_t count;
	struct race_spot *rows;
	uint64_t bytes; /* of those */
};

/* Traps that shall be taken away: number of the set << 16 | row, + 1. */
struct race_spot_queue {
	uint32_t in;
	uint32_t out;
	uint32_t wakeups; /* a futex */
	uint32_t ended;	  /* stalls */
	uint32_t rows[RACE_SPOT_QUEUE];
};

extern struct race_spot_queue race_spot_queue;

/*
 * The threads wanted at the trap were stalled, or cannot be: after the last one it need not trap.
 */
void race_spot_served(const struct race_spots *spots, struct race_spot *spot);

/* Where sites are multiplexed: its trap was there for long before a thread came. */
int race_spot_is_cold(const struct race_spot *spot, uint64_t now_ns);

void race_on_site(const struct trapline_trap_hit *hit);
/* It is about to be armed: which passes, and how many threads, will be stalled? */
enum race_arming {
	RACE_ARM_FIRST, /* in this process: perhaps none */
	RACE_ARM_AGAIN,
	RACE_ARM_TO_NOTE, /* none: it is recorded which thread touches what */
};
void race_spot_arm(struct race_spot *spot, enum race_arming why);
/* So many are about to be armed for the first time. */
void race_spots_begin(uint32_t count);

#endif
