/* SPDX-License-Identifier: MIT */
/*
 * race_stall.c - a thread is stalled before its access while the address is watched.
 *
 * The watchpoint is active before the old value is read and until the new value has been
 * read. A change that no thread was seen making was therefore made by something that
 * cannot trap here: the kernel or another process. A second thread that hit the
 * watchpoint in time is waited for even after the delay (inflight_wait), so that its slot
 * is not reused while it is in the callback.
 */
#include "race/stall/race_stall.h"

#include <errno.h>
#include <linux/futex.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/sys.h"
#include "base/trap_path.h"
#include "event/event.h"
#include "race/race_budget.h"
#include "race/race_end.h"
#include "race/race_fork.h"
#include "race/race_modules.h"
#include "race/race_state.h"
#include "race/race_strategy.h"
#include "race/race_walk.h"
#include "race/stall/race_found.h"
#include "race/stall/race_last.h"
#include "race/stall/race_outwait.h"
#include "race/stall/race_slot.h"
#include "race/stall/race_target.h"
#include "race/sweep/race_sites.h"
#include "race/watch/race_watch.h"
#include "record/race_region.h"
#include "trap/dispatch.h"
#include "trap/room.h"

/* Longer waits are inspected: a slice in which no other thread runs is the last one. */
#define SLICE_NS 1000000u
/* On a busy machine a thread may wait so long for a CPU after its stall. */
#define LEFT_AFTER_NS 10000000000u
/* So long a signal may take from the trap to its handler, on a busy machine. */
#define ARRIVAL_STEP_NS 200000
#define ARRIVAL_STEPS 25

/* 1: wait on. Else the thread is released, since no thread is there to race with. */
TRAP_PATH static int is_anybody_running(uint64_t *cpu_ns, uint64_t slice_ns)
{
	uint64_t now = race_process_cpu_ns();
	uint64_t ran = now - *cpu_ns;

	*cpu_ns = now;
	return ran > slice_ns / 16;
}

TRAP_PATH int race_slot_waits(const struct race_slot *slot)
{
	return atomic_get(&slot->state) == SLOT_OPEN && !race_is_stopped() &&
	       !race_is_unwatched() && !race_is_forking();
}

TRAP_PATH static void wait_for_second(struct race_slot *slot, uint64_t delay_ns)
{
	uint64_t start = clock_now_ns();
	uint64_t cpu_ns = delay_ns > SLICE_NS ? race_process_cpu_ns() : 0;
	uint64_t left = delay_ns;
	uint32_t patience = race_strategy->patience();

	while (race_slot_waits(slot)) {
		uint64_t slice = left < SLICE_NS ? left : SLICE_NS;
		uint64_t slack = race.budget.slack_ns;
		uint64_t sleep_ns = slice > slack + 5000 ? slice - slack : 5000;
		struct timespec ts = { 0, (long)sleep_ns };
		sys6(SYS_futex, &slot->state, FUTEX_WAIT_PRIVATE, SLOT_OPEN, &ts, NULL, 0);
		uint64_t passed = clock_now_ns() - start;
		if (passed + 5000 >= delay_ns)
			break;
		if (trap_signal_waits(slot->context)) {
			race_count(RACE_STALLS_SIGNALLED);
			break;
		}
		left = delay_ns - passed;
		if (cpu_ns && slice == SLICE_NS && !is_anybody_running(&cpu_ns, slice) &&
		    --patience == 0) {
			race_count(RACE_STALLS_IDLE);
			break;
		}
	}
}

TRAP_PATH static uint64_t read_part(const struct race_target *t, int *is_readable)
{
	uint64_t value = 0;

	*is_readable = sys_read_memory(race.pid, t->part, &value, t->part_len) ==
		       (ssize_t)t->part_len;
	return value;
}

/*
 * The value has changed and no thread has come. One may be on the way from the trap to Trapline's
 * handler. Or the signal was merged with another one, which the kernel's count shows. What is left
 * was not a thread of this process: 1. A thread created in the meantime may have escaped the watch.
 */
TRAP_PATH static int is_unknown_origin(struct race_slot *slot)
{
	struct trapline_event *ev = slot->event;
	struct timespec step = { 0, ARRIVAL_STEP_NS };
	uint64_t traps = 0;

	for (int i = 0; i < ARRIVAL_STEPS && atomic_get(&slot->state) == SLOT_OPEN &&
			!atomic_get(&slot->is_explained);
	     i++)
		sys6(SYS_futex, &slot->state, FUTEX_WAIT_PRIVATE, SLOT_OPEN, &step, NULL, 0);
	if (atomic_get(&slot->state) != SLOT_OPEN || atomic_get(&slot->is_explained))
		return 0;
	if (slot->births == UINT64_MAX || slot->ops->births() != slot->births ||
	    slot->ops->may_have_missed(slot)) {
		race_count(RACE_CHANGES_UNSURE);
		return 0;
	}
	if (race_is_stopped() || slot->ops->count_traps(slot, &traps))
		return 0;
	uint64_t dropped = counter_get(&ev->lost_nested) + counter_get(&ev->lost_late);
	uint64_t lost = traps - (counter_get(&ev->delivered) - slot->delivered_before) -
			(dropped - slot->dropped_before);
	if (lost == slot->lost && dropped == slot->dropped)
		return 1;
	/* Lost for good, or only late? For good when it is the same at the next doubt too. */
	if (lost == slot->lost_before)
		slot->lost = lost;
	slot->lost_before = lost;
	race_count(RACE_HITS_LOST);
	return 0;
}

/* Returns how long the thread waited; 0: it did not. */
TRAP_PATH static uint64_t watch_and_wait(const struct trapline_hit *hit, struct race_slot *slot,
					 uint64_t delay_ns, const struct race_code *code)
{
	const struct race_target *t = &slot->target;
	int is_readable;

	slot->births = slot->ops->births();
	slot->dropped =
		counter_get(&slot->event->lost_nested) + counter_get(&slot->event->lost_late);
	atomic_set(&slot->state, SLOT_OPEN);
	uint64_t earlier = read_part(t, &is_readable);
	slot->old_value = earlier;
	int err = slot->ops->arm(slot);
	if (err) {
		race_count(RACE_STALLS_REFUSED);
		return 0;
	}
	uint64_t start = clock_now_ns();
	slot->opened_ns = start;
	slot->old_value = read_part(t, &is_readable);
	int came_before = atomic_get(&slot->state) != SLOT_OPEN ||
			  atomic_get(&slot->locked.state) != 0;
	if (!(t->access & RACE_WRITE))
		slot->ops->pass_over(slot);
	if (slot->spot)
		race_spot_served(slot->spots, slot->spot);
	if (is_readable) {
		wait_for_second(slot, delay_ns);
		slot->outwaited_ns = race_outwait(slot);
	}
	uint64_t waited = clock_now_ns() - start;
	int was_readable = is_readable;
	uint64_t now_value = read_part(t, &is_readable);
	slot->ops->pause(slot);
	int is_unknown = was_readable && is_readable && now_value != slot->old_value &&
			 is_unknown_origin(slot);
	slot->ops->disarm(slot);
	if (!was_readable) {
		race_count(RACE_STALLS_CONSTANT);
		return 0;
	}
	int is_filled = atomic_get(&slot->state) == SLOT_FILLED;
	race_count(RACE_STALLS);
	int has_locked = atomic_get(&slot->locked.state) == 2;
	/*
	 * A thread that came before the old value was read has changed it already, and others may
	 * have since.
	 */
	if (came_before || (is_filled && slot->second.new_value == slot->old_value) ||
	    (has_locked && slot->locked.new_value == slot->old_value))
		slot->old_value = earlier;
	if (is_filled)
		race_found_record(hit, slot, code, &slot->second, now_value);
	if (has_locked)
		race_found_record(hit, slot, code, &slot->locked, now_value);
	else if (!is_filled && is_unknown)
		race_found_record(hit, slot, code, NULL, now_value);
	return waited;
}

TRAP_PATH static void note_covered(const struct race_site *site)
{
	uint64_t at = counter_add(&race.region->sites_covered, 1u);

	if (at < RACE_HELD)
		atomic_set(&race.region->held[at], site->place);
}

TRAP_PATH static int stall(const struct trapline_hit *hit, const struct race_spots *spots,
			   struct race_spot *spot, const struct race_target *target,
			   const struct race_code *code)
{
	uint64_t all_ns = race_others_cpu_ns(0, 0);
	uint64_t cpu_ns = race_thread_cpu_ns();
	uint64_t start = clock_now_ns();
	struct race_site *site = race_add_site(race.region, code->place);
	struct race_slot *slot = race_slot_take(hit->tid);

	if (!slot) {
		race_count(RACE_STALLS_NO_SLOT);
		return -EBUSY;
	}
	if (race_is_forking()) {
		race_slot_free(slot);
		return -EBUSY;
	}
	uint64_t delay = race_delay_ns(site, spot, start);
	slot->tid = hit->tid;
	slot->until_ns = start + delay + LEFT_AFTER_NS;
	slot->spots = spots;
	slot->spot = spot;
	slot->context = hit->context;
	slot->target = *target;
	slot->site = code->place;
	slot->is_explained = 0;
	slot->atomic_seen = 0;
	slot->locked.state = 0;
	slot->hits = 0;
	slot->outwaited_ns = 0;
	uint64_t number = race_last_begin(hit, slot, code);
	uint64_t found = counter_get(&race.process->counters[RACE_FOUND]);
	race_budget_stall_begins(start);
	uint64_t waited = watch_and_wait(hit, slot, delay, code);
	uint64_t alone = race_budget_stall_ends(clock_now_ns());
	uint64_t asked = delay + slot->outwaited_ns;
	race_slot_free(slot);
	race_last_end(number);
	uint64_t end = clock_now_ns();
	if (!site) {
		race_count(RACE_LOST_TABLES);
	} else if (waited) {
		if (counter_add(&site->stalls, 1u) == 0)
			note_covered(site);
		site->last_ns = end;
		if (counter_get(&race.process->counters[RACE_FOUND]) != found)
			counter_add(&site->found, 1u);
	}
	cpu_ns = race_thread_cpu_ns() - cpu_ns;
	race_budget_stalled(&(struct race_stall_cost){
		.asked_ns = asked,
		.waited_ns = waited,
		.alone_ns = alone,
		.cpu_ns = cpu_ns,
		.others_ns = race_others_cpu_ns(all_ns, cpu_ns),
		.is_trapped = spot != NULL,
	});
	return waited ? 0 : -EFAULT;
}

TRAP_PATH int race_stall(const struct trapline_hit *hit, const struct race_spots *spots,
			 struct race_spot *spot)
{
	struct race_target target;
	struct race_code code;

	race_code_at(hit->ip, &code);
	if (code.policy == RACE_CODE_EXCLUDED)
		return -ENOENT;
	if (!trap_has_room(RACE_ROOM_HOLD)) {
		race_count(RACE_STALLS_NO_ROOM);
		return -EBUSY;
	}
	int err = race_target_choose(hit, &code, spot, &target);
	if (err)
		return err;
	if (code.policy == RACE_CODE_LIBC && !race_is_called_by_included(hit))
		return -ENOENT;
	/* At a call nothing is accessed that a breakpoint alone could show. */
	if (!spot || !spot->call)
		race_note_seen(hit->ip);
	return stall(hit, spots, spot, &target, &code);
}
