/* SPDX-License-Identifier: MIT */
/* poke_view.h - what the handler finds of batches and traps: see poke.h for the rules. */
#ifndef CODE_POKE_POKE_VIEW_H
#define CODE_POKE_POKE_VIEW_H

#include "base/atomic.h"
#include "code/poke/poke.h"
#include "code/poke/trap_code.h"
#include "code/step/step.h"

#define SITE_MAX TRAPLINE_POKE_LEN_MAX

struct poke_entry {
	uint64_t address;
	uint32_t len;
	uint32_t site;	    /* index as the caller counts */
	uint8_t before[16]; /* behind len: 0 */
	uint8_t after[16];
	struct step step_before;
	struct step step_after;
};

struct poke_batch {
	size_t count;
	size_t bytes;  /* of this mapping */
	int committed; /* 0: a thread that traps runs what was before */
	int is_long;   /* more than first bytes differ */
	int is_stranded;
	struct poke_batch *next;     /* in poke_view.stranded */
	struct poke_entry entries[]; /* sorted by address */
};

/* One trap that stays. Rows belong to their set; the table points at them. */
struct trap_row {
	uint64_t address;
	uint64_t hits;
	uint64_t nested;
	struct trapline_traps *set;
	uint32_t index;
	uint8_t len;
	uint8_t is_gone;
	uint8_t is_resting; /* without its int3 for now: see traps_switch() */
	uint8_t bytes[16];  /* what was there, the whole instruction */
	struct step step;
};

struct trapline_traps {
	trapline_trap_callback callback;
	void *arg;
	uint32_t running; /* threads inside the callback, or about to be */
	uint32_t writers;
	size_t count;
	size_t bytes; /* of this mapping */
	int is_off;   /* the traps are gone, a callback was still running */
	int is_most;  /* rows that refuse a trap are gone from the start */
	struct trap_row rows[];
};

/* All traps by address: open addressing, a power of two, at most half full. */
struct trap_table {
	size_t mask;
	size_t count;
	size_t bytes; /* of this mapping */
	struct trap_row *rows[];
};

struct poke_view {
	struct poke_batch *batch;
	struct poke_batch *stranded; /* batches that could not be finished; never withdrawn */
	struct trap_table *traps;
	uint64_t generation;
};
extern struct poke_view poke_view;
extern struct trapline_code_stats poke_stats;

#endif
