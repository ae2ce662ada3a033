/* SPDX-License-Identifier: MIT */
/*
 * break_go.h - calls of functions that Go's own compiler made.
 *
 * Their returns are hits of breakpoints on their return instructions. Go's runtime moves a
 * goroutine to other threads, and its stack to other memory. So a call belongs to the goroutine,
 * and its depth is counted from the end of the stack.
 */
#ifndef CLI_BREAK_BREAK_GO_H
#define CLI_BREAK_BREAK_GO_H

#include "cli/break/break_arm.h"
#include "cli/break/break_calls.h"
#include "cli/observe/hit_copies.h"

/* A return instruction, and the site whose function has it. */
struct break_exit {
	uint64_t address;
	size_t site; /* BREAK_GO_UNWINDS: the runtime's function that ends calls in another way */
};

#define BREAK_GO_UNWINDS SIZE_MAX

struct break_go {
	struct break_exit *exit; /* by address */
	size_t count;
	uint64_t pauses;	      /* seen so far */
	struct trapline_event *event; /* NULL: returns are not wanted, or no function is Go's */
	uint64_t id_offset;	      /* in the runtime's struct of a goroutine */
	enum {
		ID_NOT_LOOKED_UP,
		ID_KNOWN,
		ID_UNKNOWN
	} id;
};

/* With --ret: finds the return instructions of Go functions. 0 or an exit status, line printed. */
int break_go_find(struct break_go *go, const struct observe *o, const struct code_sites *sites);

/*
 * Arms them, before the calls: a call without its return would get that of another. An exit status.
 */
int break_go_arm(struct break_go *go, const struct observe *o,
		 const struct trapline_event_opts *opts);

/* When the calls are armed: the first of all events, which a pause enables first. */
void break_go_join(struct break_go *go, const struct code_sites *sites, struct break_armed *armed);

/*
 * The return instruction that a hit is on; NULL: it is a call. Calls whose return will not be seen
 * are forgotten: a later return from the same stack slot would be taken for theirs.
 */
const struct break_exit *break_go_exit(struct break_go *go, const struct observe *o,
				       struct break_calls *calls, const struct trapline_hit *hit);

/* The goroutine at a hit in Go code, and its depth. */
struct break_frame break_go_frame(struct symbols *s, const struct trapline_hit *hit);

/* The memory of a hit that the two need. It comes first. */
void break_go_copies(struct break_go *go, struct symbols *s, struct hit_copies *c);

/* Names the goroutine instead of the thread. */
void break_go_name(struct break_go *go, struct symbols *s, struct trapline_hit *hit);

void break_go_free(struct break_go *go);

#endif
