/* SPDX-License-Identifier: MIT */
/*
 * throttle.h - the account of a budget. Safe in a handler.
 *
 * One number: when everything drawn so far will have been earned. A unit drawn moves it on by its
 * cost in nanoseconds. Later than now is debt; earlier by more than the burst is credit that
 * has lapsed. (The generic cell rate algorithm of ATM, ITU-T I.371.)
 */
#ifndef THROTTLE_THROTTLE_H
#define THROTTLE_THROTTLE_H

#include <stdint.h>

#include <trapline/tools.h>

#include "event/event.h"
#include "record/throttle_region.h"
#include "throttle/throttle_queue.h"

#define THROTTLES_MAX 4 /* open at once: each takes thread-local memory */

struct trapline_throttle {
	uint32_t taken;
	uint32_t index;
	/* raised at each use of the row: thread accounts of old ones are void */
	uint32_t generation;
	uint32_t flags;
	uint32_t counter;
	uint64_t cost; /* nanoseconds per unit, 32 bits of fraction */
	uint64_t check;
	uint64_t burst_ns;
	uint64_t debt_ns;
	void (*throttled)(void *arg, uint64_t debt_ns);
	void (*unthrottled)(void *arg);
	void *arg;
	uint32_t scope;
	int clock; /* of the one thread that draws CPU time; 0: another scope, or amount */
	struct trapline_event *event;

	struct throttle_account own;
	struct throttle_account *account; /* own, or one shared by processes */
	uint64_t reported; /* of what this process drew, how much is in the shared account */
	const struct throttle_region *region; /* of the command, or NULL */
	struct throttle_budget *totals;	      /* there */
	uint32_t is_throttled;
	struct throttle_queue queue; /* of this process */
	uint64_t drawn_before;	     /* it began */
	/* one that draws alone: what a sleep itself costs, in time that pays for it */
	uint64_t wake_ns;
	uint64_t checks;
	uint64_t sleeps;
	uint64_t slept_ns;
	uint64_t throttled_count;
};

/* A free row, or NULL. Everything behind `generation` is zero. */
struct trapline_throttle *throttle_take(void);
void throttle_give(struct trapline_throttle *t);

/* It ends: sleepers continue. */
void throttle_wake(struct trapline_throttle *t);

/* This thread sleeps in no check until the next call, for it does what cannot wait. */
void throttle_spare(int is_spared);

/* No sample any more. */
void throttle_rest(struct trapline_throttle *t);

/* In a forked child: the parent's rows are not its own. */
void throttle_forked(void);

/* Open the account: nothing is drawn, nothing is owed. */
void throttle_begin(struct trapline_throttle *t, uint64_t per_second);

/* The account of the command's budget instead of its own; before throttle_begin(). */
void throttle_share(struct trapline_throttle *t, struct throttle_region *region, uint32_t budget);

/* What has been drawn, as the kernel counts. */
uint64_t throttle_drawn(struct trapline_throttle *t);

/* Nanoseconds until the account is even. */
uint64_t throttle_debt(struct trapline_throttle *t);

/* Sleep until the account is even. Returns the nanoseconds slept. */
uint64_t throttle_pay(struct trapline_throttle *t);

/* A sample in SIGTRAP. */
void throttle_check(struct trapline_throttle *t);

#endif
