/* SPDX-License-Identifier: MIT */
/*
 * race_fork.c - no event is opened or closed while a thread forks.
 *
 * The kernel copies the descriptors first and the memory later. A child could have a
 * descriptor that its memory does not know of. It would keep that descriptor, and the
 * debug register of the event, as long as it lives. So all stalls end, and none begins,
 * until the child exists.
 */
#include "race/race_fork.h"

#include <linux/futex.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/sys.h"
#include "race/race.h"
#include "race/race_aim.h"
#include "race/race_state.h"
#include "race/race_turn.h"
#include "race/stall/race_slot.h"

#define STEP_NS 50000
/* A thread may have left a stall for good, by longjmp() in the program's own handler. */
#define WAIT_MAX_NS 200000000u

uint32_t race_forking;

static int is_slot_free(struct race_slot *slot, pid_t tid, uint64_t now_ns)
{
	if (atomic_get(&slot->state) == SLOT_FREE)
		return 1;
	sys6(SYS_futex, &slot->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	if (!race_slot_reclaim(slot, tid, now_ns))
		return 0;
	race_slot_free(slot);
	return 1;
}

static int are_slots_free(pid_t tid)
{
	int are = 1;

	for (uint32_t i = 0; i < race.slot_count; i++)
		are &= is_slot_free(&race.slots[i], tid, clock_now_ns());
	return are;
}

static int are_all_away(void)
{
	int are = race_turn_put_away();

	if (race_watch_opens_some())
		are &= are_slots_free(sys_gettid()) & race_aims_put_away();
	return are;
}

void race_fork_begins(void)
{
	const struct timespec step = { 0, STEP_NS };
	uint64_t end_ns = clock_now_ns() + WAIT_MAX_NS;

	atomic_add(&race_forking, 1u);
	if (atomic_get(&race.phase) != RACE_RUNNING)
		return;
	while (!are_all_away() && clock_now_ns() < end_ns)
		sys_nap(&step);
}

void race_fork_ended(void)
{
	atomic_add(&race_forking, -1u);
}
