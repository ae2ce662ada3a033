/* SPDX-License-Identifier: MIT */
/* race_slot.c - see race_slot.h. */
#include "race/stall/race_slot.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/trap_path.h"
#include "event/event.h"
#include "race/race_state.h"
#include "race/watch/race_watch.h"

TRAP_PATH void race_slot_count_again(struct race_slot *slot)
{
	slot->delivered_before = counter_get(&slot->event->delivered);
	slot->dropped_before = slot->dropped;
	slot->lost = 0;
	slot->lost_before = 0;
}

TRAP_PATH void race_slot_free(struct race_slot *slot)
{
	slot->ops->give();
	atomic_set(&slot->state, SLOT_FREE);
}

/*
 * A handler of the program for a fault can end a stall by siglongjmp or worse. The caller is not in
 * the stall, so a slot of its own is one that it left that way.
 */
TRAP_PATH int race_slot_reclaim(struct race_slot *slot, pid_t caller, uint64_t now_ns)
{
	uint32_t state = atomic_get(&slot->state);

	/* tid and until_ns are those of the present owner from SLOT_OPEN on, and not before. */
	if (state == SLOT_FREE || state == SLOT_TAKEN || state == SLOT_FILLING ||
	    (slot->tid != caller && now_ns < slot->until_ns))
		return 0;
	if (!atomic_cas(&slot->state, &state, SLOT_TAKEN))
		return 0;
	race_count(RACE_STALLS_LEFT);
	slot->ops->pause(slot);
	slot->ops->disarm(slot);
	return 1;
}

/* With many threads, to open a watch in each of them costs too much. */
TRAP_PATH static int is_usable(const struct race_slot *slot)
{
	return race_watch->is_of_threads || !slot->ops->opens_again ||
	       counter_get(&race.budget.threads) < RACE_AGAIN_THREADS / 2;
}

/* 1: the slot is the caller's. Another process may have its watch. */
TRAP_PATH static int is_taken(struct race_slot *slot)
{
	if (slot->ops->take())
		return 1;
	atomic_set(&slot->state, SLOT_FREE);
	return 0;
}

TRAP_PATH struct race_slot *race_slot_take(pid_t tid)
{
	uint64_t now = clock_now_ns();

	for (uint32_t i = 0; i < race.slot_count; i++) {
		struct race_slot *slot = &race.slots[i];
		uint32_t expected = SLOT_FREE;

		if (is_usable(slot) && atomic_cas(&slot->state, &expected, SLOT_TAKEN) &&
		    is_taken(slot))
			return slot;
	}
	for (uint32_t i = 0; i < race.slot_count; i++) {
		struct race_slot *slot = &race.slots[i];

		if (race_slot_reclaim(slot, tid, now) && is_taken(slot))
			return slot;
	}
	return NULL;
}

TRAP_PATH int race_has_free_slot(void)
{
	for (uint32_t i = 0; i < race.slot_count; i++)
		if (is_usable(&race.slots[i]) && atomic_get(&race.slots[i].state) == SLOT_FREE)
			return 1;
	return 0;
}
