/* SPDX-License-Identifier: MIT */
/* break_calls.h - calls, and those that have not returned. */
#ifndef CLI_BREAK_BREAK_CALLS_H
#define CLI_BREAK_BREAK_CALLS_H

#include "report/run/run.h"

#include <trapline/trapline.h>

/* A call of a function. It is printed at once, or when it has returned. */
struct break_call {
	size_t site;		 /* index in the sites */
	struct trapline_hit hit; /* of the call; the memory that its pointers point to is not valid */
	uint64_t caller;	 /* 0: not known */
	struct run_frame *frames; /* NULL: none */
	size_t frame_count;
	char *args_text; /* NULL: not wanted */
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
/* Removes and returns the call that has returned; NULL: it was not seen. */
struct break_call *break_calls_return(struct break_calls *calls, const struct trapline_hit *hit);
/* Takes all calls that have not returned, oldest first. The caller frees each, and the array. */
size_t break_calls_take(struct break_calls *calls, struct break_call ***out);
void break_calls_free(struct break_calls *calls);

#endif
