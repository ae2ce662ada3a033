/* SPDX-License-Identifier: MIT */
/* break_calls.h - calls, and those that have not returned. */
#ifndef CLI_BREAK_BREAK_CALLS_H
#define CLI_BREAK_BREAK_CALLS_H

#include "report/run/run.h"

#include <trapline/trapline.h>

/* Whose call it is, and where on the stack: the same at the entry and at the return. */
struct break_frame {
	uint64_t owner; /* a thread, or a goroutine */
	uint64_t depth;
};

/* A call of a function. It is printed at once, or when it has returned. */
struct break_call {
	size_t site; /* index in the sites */
	struct break_frame frame;
	/* where the caller wants a result that is not in registers; 0: not known */
	uint64_t hidden;
	/* of the call; the memory that its pointers point to is not valid */
	struct trapline_hit hit;
	uint64_t caller; /* 0: not known */
	struct place
		caller_place; /* as of the call: the process may run another program when it ends */
	struct run_frame *frames; /* NULL: none */
	size_t frame_count;
	char *args_text; /* NULL: not wanted */
	char *printed;	 /* of --print; NULL: none */
	char *key;	 /* of --by EXPR; NULL: none */
	json_t *args_json;
	bool args_later;
	struct break_call *older; /* in the same thread */
};
void break_call_free(struct break_call *call);

/* Calls that have not returned. */
struct break_calls {
	void *threads; /* tsearch() tree */
	size_t open;
	uint64_t not_returned; /* when the run ended */
	uint64_t dropped;      /* the oldest, when too many calls never returned */
	uint64_t unpaired;     /* returns whose call was not seen */
};

/* Keeps the call, which the table owns from now on. */
void break_calls_enter(struct break_calls *calls, struct break_call *call);
/* The frame of a call by the stack pointer, as it was at its entry. */
struct break_frame break_calls_frame(const struct trapline_hit *hit);
/* Removes and returns the call that has returned; NULL: it was not seen. function: its site. */
struct break_call *break_calls_return(struct break_calls *calls, const struct break_frame *frame,
				      uint64_t function);
/*
 * Calls whose return cannot be distinguished from others by now: they stay as not returned. owner
 * 0: all.
 */
void break_calls_forget(struct break_calls *calls, uint64_t owner);
/* Takes all calls that have not returned, oldest first. The caller frees each, and the array. */
size_t break_calls_take(struct break_calls *calls, struct break_call ***out);
void break_calls_free(struct break_calls *calls);

#endif
