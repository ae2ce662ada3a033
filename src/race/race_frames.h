/* SPDX-License-Identifier: MIT */
/* race_frames.h - the unwind table of an object, see race_frames.c. */
#ifndef RACE_FRAMES_H
#define RACE_FRAMES_H

#include <stdint.h>

#include "code/unwind/unwind_table.h"

/* What was copied last of a table: its entries are in order, most often. */
struct race_window {
	struct unwind_source source;
	struct unwind_reader reader;
	uint8_t room[4096];
};

struct race_frames {
	struct race_window entries;
	struct race_window commons;
	struct race_window handlers;
	struct unwind_common common; /* that was read last */
};

/* One function, or a part of one that lies elsewhere. */
struct race_frame {
	struct unwind_entry entry;
	uint64_t start;
	uint64_t end;
};

/* 0, or an error that ends the search. */
typedef int (*race_root)(void *arg, uint64_t address);

void race_frames_begin(struct race_frames *f);
/* 1: the entry at an address. */
int race_frame_read(struct race_frames *f, uint64_t at, struct race_frame *out);
/*
 * Calls a function for each address, inside the frame or not, where an instruction begins for
 * certain.
 */
void race_frame_roots(struct race_frames *f, const struct race_frame *frame, race_root root,
		      void *arg);
/* 1: the frame is at a distance from rbp, or that is not known; 0: rbp may point anywhere. */
int race_frame_is_at_rbp(struct race_frames *f, const struct race_frame *frame);

#endif
