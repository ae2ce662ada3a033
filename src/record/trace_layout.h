/* SPDX-License-Identifier: MIT */
/*
 * trace_layout.h - one call of a function, and the calls below it, as `trapline break --trace`
 * reads them.
 *
 * The traced thread alone writes. A node is whole when `nodes` counts it; its end comes later.
 */
#ifndef RECORD_TRACE_LAYOUT_H
#define RECORD_TRACE_LAYOUT_H

#include <stdint.h>

#define TRACE_NODES_MAX 131072u
#define TRACE_STUB_INSNS 6u /* a function that jumps on so soon is a stub of the one it jumps to */

enum trace_end {
	TRACE_OPEN,
	TRACE_RETURNED,
	TRACE_LEFT, /* by longjmp(3) or an exception */
};

/* In the order of their begins. */
struct trace_node {
	uint64_t function; /* where it begins */
	uint64_t insns_begin;
	uint64_t insns_end;
	uint64_t ticks_begin;
	uint64_t ticks_end;
	uint32_t depth;
	uint16_t end;	  /* enum trace_end */
	uint16_t by_jump; /* instead of a call: a tail call */
};

enum trace_state {
	TRACE_WAITS,
	TRACE_RUNS,
	TRACE_DONE,
};

enum trace_limit {
	TRACE_NO_LIMIT,
	TRACE_LIMIT_NODES,
	TRACE_LIMIT_FRAMES, /* calls in each other */
};

struct trace_head {
	uint32_t state;
	uint32_t reason; /* enum window_reason: why the window ended */
	int32_t error;	 /* the window could not begin */
	uint32_t nodes;
	uint32_t limit; /* enum trace_limit */
	uint32_t reserved;
	uint64_t deeper; /* calls below the depth that was asked for */
	uint64_t insns;
	uint64_t pc;			/* where the thread continued */
	uint64_t syscall;		/* that ended the window */
	uint64_t begin_ns, begin_ticks; /* of the same moment */
	uint64_t end_ns, end_ticks;
};

#endif
