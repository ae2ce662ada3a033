/* SPDX-License-Identifier: MIT */
/* race_frames.h - the unwind table of an object, see race_frames.c. */
#ifndef RACE_FRAMES_H
#define RACE_FRAMES_H

#include <stdint.h>

/* What was copied last of a table: its entries are in order, most often. */
struct race_window {
	uint64_t start;
	uint32_t bytes;
	uint8_t copy[4096];
};

struct race_frames {
	struct race_window fde;
	struct race_window cie;
	struct race_window lsda;
	/* from the CIE that was read last: */
	uint64_t cie_at; /* 0: none */
	uint64_t unit;
	uint8_t has_size;
	uint8_t lsda_encoding;
};

/* One function, or a part of one that lies elsewhere. */
struct race_frame {
	uint64_t at; /* of the entry */
	uint32_t length;
	uint64_t cie_at;
	uint64_t start;
	uint64_t end;
};

typedef void (*race_root)(void *arg, uint64_t address);

/* 1: the entry at an address. */
int race_frame_read(struct race_frames *f, uint64_t at, struct race_frame *out);
/*
 * Calls a function for each address, inside the frame or not, where an instruction begins for
 * certain.
 */
void race_frame_roots(struct race_frames *f, const struct race_frame *frame, race_root root,
		      void *arg);

#endif
