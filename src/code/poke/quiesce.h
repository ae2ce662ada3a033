/* SPDX-License-Identifier: MIT */
/* quiesce.h - the threads that are in the handler. */
#ifndef CODE_POKE_QUIESCE_H
#define CODE_POKE_QUIESCE_H

#include "base/atomic.h"
#include <stdint.h>

/*
 * Sleepable RCU with two sides. A thread that enters counts on the side that is current. A thread
 * that waits turns the side twice, and each time waits until the one left is empty. Striped, so
 * that threads on different stacks do not share a line.
 */
#define QUIESCE_STRIPES 16
struct quiesce_stripe {
	uint64_t entered[2];
	uint64_t left[2];
} __attribute__((aligned(64)));
extern struct quiesce_stripe quiesce_stripes[QUIESCE_STRIPES];
extern uint32_t quiesce_side;

struct quiesce_ticket {
	uint32_t stripe;
	uint32_t side;
};

static inline struct quiesce_ticket quiesce_enter(void)
{
	struct quiesce_ticket in = {
		(uint32_t)((uintptr_t)__builtin_frame_address(0) >> 14) % QUIESCE_STRIPES,
		atomic_get(&quiesce_side) & 1,
	};

	atomic_add(&quiesce_stripes[in.stripe].entered[in.side], 1);
	return in;
}

static inline void quiesce_leave(struct quiesce_ticket in)
{
	atomic_add(&quiesce_stripes[in.stripe].left[in.side], 1);
}

/* 0: every thread that was inside has left since the call. -EAGAIN: not yet, memory must wait. */
int quiesce_wait(void);
void quiesce_reset(void);

#endif
