/* SPDX-License-Identifier: MIT */
/*
 * race_places.h - the two locations of a race of an earlier run, in the files of today.
 *
 * The race comes from the JSON lines of that run. In the same build a location is the
 * instruction itself. In another build it is the same line of the function, counted from
 * its first line, or the whole function if there are no lines.
 */
#ifndef RACE_PLACES_H
#define RACE_PLACES_H

#include "record/race_region.h"

#include <stdbool.h>
#include <stddef.h>

struct race_replay_side {
	char function[256]; /* empty: none */
	char module[256];
	char path[512]; /* of the module; empty: unknown, in an older report */
	char build_id[64];
	char file[256];
	int line;	      /* 0: unknown */
	int line_in_function; /* from where the function begins; -1: unknown */
	uint64_t module_offset;
	uint64_t function_offset;
	struct race_range function_range; /* of another build: where it is now */
	bool is_known;			  /* a thread was seen there */
	bool is_decoded;	 /* module_offset is the instruction, else the one after it */
	bool is_memory_function; /* the access is in libc, called from there */
	bool is_rebuilt;
	bool is_whole_function; /* no line to go by */
};

struct race_replay {
	char fingerprint[20];
	char grade;	  /* A, B, C */
	char outcome[40]; /* of a failure, whose sides are stalls; empty: a race */
	char varied[256]; /* as in struct race_view */
	struct race_replay_side sides[2];
	uint64_t second_range; /* the first range that is of the second side */
};

/*
 * fingerprint: its first digits are enough if only one race has them. -EINVAL, -ENOENT or
 * another error of the file: error is one line with the cause and the remedy.
 */
int race_replay_read(const char *path, const char *fingerprint, struct race_replay *out,
		     char *error, size_t n);

/*
 * Fills ranges and range_count of the settings with where the accesses are in the files as they are
 * now. program: taken where a module of that name is meant that is not where it was. 0, or -errno
 * and error as above.
 */
int race_replay_find(struct race_replay *replay, const char *program, struct race_settings *out,
		     char *error, size_t n);

#endif
