/* SPDX-License-Identifier: MIT */
/*
 * road_counts.h - how often each key waits, and one of those that wait most often.
 *
 * Each call takes the same time, with any number of keys: a full spool asks for each finding.
 */
#ifndef CLI_PATROL_ROAD_COUNTS_H
#define CLI_PATROL_ROAD_COUNTS_H

#include <stddef.h>
#include <stdint.h>

struct road_count;

struct road_counts {
	struct road_count *keys;  /* by key */
	struct road_count **with; /* the keys of each number, as lists */
	size_t most;		  /* the largest number of a key */
	size_t capacity;	  /* of with */
};

/* 0 or -ENOMEM, and then nothing is added. */
int road_counts_add(struct road_counts *c, uint64_t key);
/* Only a key that was added. */
void road_counts_remove(struct road_counts *c, uint64_t key);
/* The one that has had this number for longest, if there are several. most is not 0. */
uint64_t road_counts_most(const struct road_counts *c);
void road_counts_free(struct road_counts *c);

#endif
