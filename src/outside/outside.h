/* SPDX-License-Identifier: MIT */
/*
 * outside.h - races of a process, searched from outside: no code, no thread and no descriptor in
 * it. For the command alone.
 */
#ifndef OUTSIDE_H
#define OUTSIDE_H

#include "outside/outside_shared.h"
#include "record/race_region.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct outside;

struct outside_settings {
	pid_t pid;
	struct race_region *region; /* of this process alone: files and sites get rows there */
	uint64_t budget_ppm;	    /* of the time that the process runs */
	uint64_t delay_ns;	    /* 0: adaptive */
	uint64_t start_ns;	    /* what may be spent at once */
};

/* Two accesses. */
struct outside_caught {
	struct outside_slot slot;
	struct outside_trap trap;
	struct outside_trap second; /* where slot.second.site is not 0 */
};

/* How far it came. */
struct outside_sums {
	uint64_t functions; /* that are searched, */
	uint64_t turned;    /* that had their turn, */
	uint64_t left_out;  /* of runtimes and the C library */
	uint64_t modules;   /* objects that are searched */
	uint64_t nameless;  /* static, without symbols */
	uint64_t critical;  /* objects with restartable sequences */
	uint64_t unmapped;  /* memory with code of no file */
	uint64_t turns;
	uint64_t turns_hot; /* ended early by too many hits */
	uint64_t sites;	    /* that had a probe, with repetitions */
	uint64_t refused;   /* by the kernel */
	uint64_t no_room;   /* sites that a turn had no room for */
	uint64_t changed;   /* values that changed without an access that was seen */
	uint64_t lost;	    /* caught pairs that had no room */
	uint64_t spent_ns;  /* occupied CPUs, hits, and the command's own work */
	uint64_t run_ns;    /* of the process, of which the budget is a part */
	uint64_t counts[OUTSIDE_COUNTS];
	uint64_t hit_ns; /* what a probe costs */
	bool is_go;
	bool is_on_cpus;  /* the watch is; else in each thread */
	bool is_by_sites; /* no debug register works: a second access is seen at a probe alone */
};

/* Whether this processor's accesses are decoded: false, and outside_open() refuses each process. */
bool outside_is_built(void);
/*
 * 0, or -errno and *why is a reason. Nothing is searched before outside_start(). *out is to be
 * given to outside_close().
 */
int outside_open(const struct outside_settings *settings, struct outside **out, const char **why);
/* The first turn begins before this returns: the process may be stopped. 0 or -errno. */
int outside_start(struct outside *o, const char **why);
/* The next pair: to be freed. NULL: none yet. */
struct outside_caught *outside_next(struct outside *o);
void outside_sum_up(struct outside *o, struct outside_sums *out);
/* No probe is left when this returns. What was caught stays. */
void outside_stop(struct outside *o);
void outside_close(struct outside *o);

/* ---- outside_side.c: what the registers of a pair show ---- */

/* How an address of the process is known after its end. */
uint64_t outside_place(struct outside *o, uint64_t address);
/* Everything except the frames. *stored: see RACE_STORES_SAME. */
void outside_first_side(struct outside *o, const struct outside_caught *c, struct race_side *out);
/*
 * The same; 0, or the counter that it belongs to: it does not count. *pc is where its stack begins,
 * behind the access.
 */
int outside_second_side(struct outside *o, const struct outside_caught *c, struct race_side *out,
			uint64_t *pc);
/* In libc, or in what a static program has of it: its access is one of its caller. */
bool outside_is_libc(struct outside *o, uint64_t address);
bool outside_is_included(struct outside *o, uint64_t address);

#endif
