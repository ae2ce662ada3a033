/* SPDX-License-Identifier: MIT */
/* probe_record.h - a hit of a callback as a record, as a BPF program would have written it. */
#ifndef TRAP_PROBE_RECORD_H
#define TRAP_PROBE_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include <trapline/trapline.h>

#include "record/hit_ring.h"

/* What is written behind the registers. All of it fits in a slot. */
struct probe_record_wish {
	uint64_t event;	      /* for record.event */
	uint32_t texts;	      /* registers that lead to text, by DWARF number */
	uint32_t texts_bytes; /* RECORD_TEXT_BYTES for each of them */
	uint32_t vectors;     /* so many vector registers, from the first one on */
	uint32_t stack_bytes; /* 0: no stack */
};

/*
 * 1: written; 0: the ring is full; -1: the reader has given it up in the meantime. In a callback.
 * AS-Safe.
 */
int probe_record_write(const struct hit_slots *slots, const struct trapline_hit *hit,
		       const struct probe_record_wish *wish);

#endif
