/* SPDX-License-Identifier: MIT */
/*
 * window_trace.h - the calls of a thread in a window, as a tree.
 *
 * Each call is known by where its return address lies on the stack. A return is of the frames with
 * that location; a call or return further up has left those below by longjmp(3) or an exception. A
 * jump to the begin of another function with the return address on top is a tail call. Functions
 * that switch stacks are not understood.
 */
#ifndef CODE_WINDOW_WINDOW_TRACE_H
#define CODE_WINDOW_WINDOW_TRACE_H

#include "code/window/window.h"
#include "record/trace_layout.h"

#define WINDOW_TRACE_FRAMES 8192u
#define WINDOW_TRACE_STARTS 1024u

struct window_trace_frame {
	uint64_t sp;   /* of the return address */
	uint32_t node; /* UINT32_MAX: not recorded */
	uint32_t calls;
};

struct window_trace {
	struct trace_head *head;
	struct trace_node *nodes;
	uint32_t most_nodes;
	uint32_t depth; /* of the deepest nodes; 0: no limit */
	/* Not 0: the window is to end. */
	const uint32_t *is_off;
	/* The rest is its own. */
	uint32_t frames_used;
	uint64_t start_cache[WINDOW_TRACE_STARTS];
	uint8_t is_start[WINDOW_TRACE_STARTS];
	struct window_trace_frame frames[WINDOW_TRACE_FRAMES];
};

/*
 * Fills the request, whose limits are the caller's. The window is to begin in the function at pc.
 */
void window_trace_begin(struct window_trace *trace, uint64_t pc, uint64_t sp,
			struct window_request *request);

#endif
