/* SPDX-License-Identifier: MIT */
/*
 * late_jump.h - a function of a process that runs leads to one of Trapline, and back.
 *
 * A jump in the function goes through a word, so that one store turns all threads. A row and its
 * word stay for ever, and are used again.
 */
#ifndef GUEST_LATE_JUMP_H
#define GUEST_LATE_JUMP_H

#include <stdbool.h>
#include <stdint.h>

struct code_problem;
struct trapline_traps;

struct late_jump {
	uint64_t function; /* where it leads */
	uint64_t address;
	uint64_t *word;
	uint64_t jump_at;  /* the address, or a little behind it */
	uint64_t to;	   /* where its word leads when it leads to Trapline's */
	uint64_t original; /* a copy of its first instructions, and the rest */
	uint32_t number;
	struct trapline_traps *traps; /* instead of a jump */
	bool is_open;
};

/*
 * Puts the jump, which leads to the original function. 0 or -errno, with the reason in problem:
 * late_jump_has_no_room() is for one that may be had as a trap. Not in a hit, and not in a thread
 * that a trap would kill.
 */
int late_jump_open(struct late_jump *jump, struct code_problem *problem);
bool late_jump_has_no_room(int err);
/*
 * A trap serves where a jump has no room, but only where it is seldom reached, and never with
 * signals blocked. original: what serves for the function in the meantime.
 */
int late_jump_open_trap(struct late_jump *jump, uint64_t original, struct code_problem *problem);

/* To Trapline's, or to the original function. AS-Safe. */
void late_jump_lead(struct late_jump *jump, bool to_ours);
/* The text is as it was. false: it could not be, and the jump leads to the original function. */
bool late_jump_close(struct late_jump *jump);

#endif
