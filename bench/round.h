/* SPDX-License-Identifier: MIT */
/*
 * round.h - one contender, one condition, N hits: what they cost and on which it was true.
 *
 * Two programs speak by lines. The target (conditions_target.c), which makes the hits:
 *	ready PID WORD SITE	where they will be; it goes on when it is told to
 *	ns MEDIAN MEAN		of a false hit: median and mean over short batches of them
 * and who watches, which is the target itself or a peer (peers/), run as
 *	PEER watch|break PID ADDR VALUE PROGRAM [MECHANISM]
 *	armed			a peer: from now on no hit is missed
 *	true VALUE		at a hit on which the condition holds: the value, as found there
 *	taken N			hits that were evaluated, if it can tell
 *	skip WHY		cannot be done here
 * Hit number i has the value i. Any other line is a tool's chatter.
 */
#ifndef BENCH_ROUND_H
#define BENCH_ROUND_H

#include <stdint.h>

enum {
	BENCH_WATCH = 1,
	BENCH_BREAK = 2
};

struct contender {
	const char *name;
	const char *mode;      /* of the target: plain, or how it watches itself */
	const char *peer;      /* program in the bench's folder, or NULL */
	const char *mechanism; /* which the peer is told, or NULL */
	int events;	       /* BENCH_WATCH, BENCH_BREAK or both */
	uint32_t slowness;     /* makes so many times fewer hits */
	int is_unconditional;  /* the floor: every hit is alike */
	int is_without_trap;   /* takes no debug trap: the floor is no part of its price */
	int may_refuse;	       /* events for which "skip" is its known answer */
};

struct round {
	const char *folder; /* of the programs */
	int event;
	uint64_t hits;
	uint64_t true_on;
	int target_cpu;
	int peer_cpu;
};

struct outcome {
	double ns; /* of a false hit: the median of short batches */
	double mean_ns;
	uint32_t true_count;
	uint64_t true_value; /* the last one */
	int is_taken_known;
	uint64_t taken;
	char skipped[256]; /* empty: it ran */
	char wrong[256];   /* empty: it did what it should */
};

/* Always fills *out. true_on beyond hits: never. */
void round_run(const struct contender *contender, const struct round *round,
	       struct outcome *out);

#endif
