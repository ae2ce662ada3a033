/* SPDX-License-Identifier: MIT */
/*
 * probe_region.h - what `trapline break --mechanism probe` and its process share.
 *
 * The command holds a lock (flock(2)) on the data as long as it lives, through an open file that no
 * other process has. The agent waits for that lock: it gets it when the command has ended, by an
 * exit or a signal.
 */
#ifndef RECORD_PROBE_REGION_H
#define RECORD_PROBE_REGION_H

#include <stddef.h>
#include <stdint.h>

#include "record/hit_ring.h"
#include "record/share_head.h"
#include "record/trace_layout.h"

#define PROBE_MAGIC 0x65626f727070u
#define PROBE_SITES_MAX 240u
#define PROBE_CONDITION_BYTES 16384u
#define PROBE_RING_BYTES (8u << 20)
#define PROBE_SLOT_MIN 512u
#define PROBE_SLOT_MAX 16384u

/* What became of the hits. taken is counted first, and apart from the others. */
struct probe_counts {
	uint64_t is_off; /* set by the command: hits are as if they were not */
	uint64_t taken;
	uint64_t rejected_condition; /* by the interpreter: machine code counts nothing */
	uint64_t condition_faults;
	uint64_t rejected_limit;
	uint64_t written;
	uint64_t lost_nested;
	uint64_t lost_late;
	uint64_t lost_full;
};

struct probe_outcome {
	uint32_t mechanism; /* enum trapline_mechanism */
	uint32_t evaluated_in;
	int32_t error;
	uint32_t reserved;
};

struct probe_region {
	/* Only trapline writes this: see record/share_head.h. */
	union {
		struct {
			struct share_head share;
			uint32_t count;
			uint32_t texts;	      /* registers that lead to text, by DWARF number */
			uint32_t vectors;     /* vector registers, from the first one on */
			uint32_t stack_bytes; /* of each record; 0: no stacks */
			uint32_t slot_bytes;
			uint64_t limit; /* over all sites; 0: none */
			uint32_t condition_bytes;
			uint32_t is_whole; /* one site that is refused refuses all */
			/*
			 * --trace: the thread of the hit continues in a window, of at most that
			 * time.
			 */
			uint32_t is_trace;
			uint32_t trace_depth; /* 0: no limit */
			uint64_t trace_ns;
			uint64_t sites[PROBE_SITES_MAX];
			uint8_t condition[PROBE_CONDITION_BYTES]; /* struct condition */
		};
		uint8_t head[SHARE_HEAD_BYTES];
	};
	/* And the process this. */
	struct run_words run;
	uint64_t granted; /* of the limit */
	struct probe_counts counts;
	struct probe_outcome outcome[PROBE_SITES_MAX];
	struct trace_head trace;
	struct hit_ring ring;
	_Alignas(4096) uint8_t slots[PROBE_RING_BYTES];
	_Alignas(4096) struct trace_node nodes[TRACE_NODES_MAX];
};

_Static_assert(offsetof(struct probe_region, run) == SHARE_HEAD_BYTES,
	       "the sites have room in the head");

#endif
