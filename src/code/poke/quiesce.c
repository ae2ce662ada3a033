/* SPDX-License-Identifier: MIT */
/* quiesce.c - waiting until no handler inspects what was withdrawn: see quiesce.h. */
#include <errno.h>

#include "base/after_fork.h"
#include "base/sys.h"
#include "code/poke/quiesce.h"
#include "code/poke/trap_code.h"

/* A handler is inside for a microsecond, unless its thread was stopped or preempted there. */
#define SPINS 200
#define NAPS 40
#define NAP_NS 50000

struct quiesce_stripe quiesce_stripes[QUIESCE_STRIPES];
uint32_t quiesce_side;

/* Left is summed first: a thread that enters in the meantime can make it look busy, never idle. */
AT_FORK static int is_empty(uint32_t side)
{
	uint64_t left = 0;
	uint64_t entered = 0;

	for (int i = 0; i < QUIESCE_STRIPES; i++)
		left += atomic_get(&quiesce_stripes[i].left[side]);
	for (int i = 0; i < QUIESCE_STRIPES; i++)
		entered += atomic_get(&quiesce_stripes[i].entered[side]);
	return left == entered;
}

static int wait_for(uint32_t side)
{
	for (int i = 0; i < SPINS; i++) {
		if (is_empty(side))
			return 0;
		code_pause();
	}
	for (int i = 0; i < NAPS; i++) {
		struct timespec nap = { 0, NAP_NS };

		sys_nap(&nap);
		if (is_empty(side))
			return 0;
	}
	return -EAGAIN;
}

int quiesce_wait(void)
{
	/*
	 * Twice: a thread that read the side before the first turn may count in there after the
	 * wait.
	 */
	for (int turn = 0; turn < 2; turn++) {
		uint32_t side = atomic_add(&quiesce_side, 1u) & 1;
		int err = wait_for(side);

		if (err)
			return err;
	}
	return 0;
}

/* In a forked child: the threads that were inside do not exist. */
AT_FORK void quiesce_reset(void)
{
	if (is_empty(0) && is_empty(1))
		return;
	for (int i = 0; i < QUIESCE_STRIPES; i++)
		quiesce_stripes[i] = (struct quiesce_stripe){ { 0 }, { 0 } };
}
