/* SPDX-License-Identifier: MIT */
/*
 * heap_watch.c - see heap_watch.h.
 *
 * String functions of libraries read whole vectors, which may begin before the string or end behind
 * it: heap_innocent.h. A watch that saw some of these reads rests, since each costs as much as a
 * sample.
 *
 * Rules: 1. A thread that wins `is_busy` by a compare-and-exchange may move the watch; one that
 * does not win continues without. 2. slot->watched is 0 as soon as an access to these bytes may
 * have been missed: then free() inspects them too.
 */
#include "heap/heap_watch.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "base/after_fork.h"
#include "base/atomic.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/own_fd.h"
#include "base/sys.h"
#include "code/insn/insn_context.h"
#include "core/hit_insn.h"
#include "core/moved_watch.h"
#include "event/aim.h"
#include "event/event.h"
#include "event/fires.h"
#include "heap/heap.h"
#include "heap/heap_budget.h"
#include "heap/heap_fault.h"
#include "heap/heap_innocent.h"
#include "heap/heap_tell.h"
#include "trap/dispatch.h"
#include "trap/install.h"

#define WATCHES 3u /* of the four registers; one is for others */
#define CHOSEN 1u
#define INNOCENT_MAX 2u /* aligned reads, before a watch rests */
#define TRAP_NS 10000u	/* until Trapline's handler runs, and after it */
/*
 * Measured in a virtual machine: a switch of threads, for all that are open, and for each that is
 * aimed.
 */
#define SWITCH_OPEN_NS 450u
#define SWITCH_AIMED_NS 230u
#define MOVE_EVERY_NS 100000u
#define MOVES_AT_ONCE 64u

struct watch {
	struct moved_watch moved;
	struct heap_slot *slot; /* NULL: it rests */
	uint32_t is_behind;
	uint32_t is_busy;
	uint32_t innocent;
};

static struct watch watches[WATCHES];
static AFTER_FORK uint32_t watch_count;
static AFTER_FORK uint64_t switches_seen;
/*
 * A child has so many copies of its parent's. Its own are not open yet, which costs more than most
 * children do. The copies stay as they are until it has run for a while: each page of them costs.
 */
static AFTER_FORK uint32_t parents_count;

/* ---- where ---- */

/* As many bytes as one register takes on that side of the address; 0: none is there. */
static uint32_t bytes_beside(uintptr_t at, bool is_there)
{
	uint32_t bytes = MOVED_WATCH_BYTES;

	while (at & (bytes - 1))
		bytes /= 2;
	return is_there ? bytes : 0;
}

static uint32_t bytes_before(const struct heap_slot *slot)
{
	return bytes_beside(slot->start, slot->start > slot->base);
}

static uint32_t bytes_behind(const struct heap_slot *slot)
{
	uintptr_t end = slot->start + slot->bytes;

	return bytes_beside(end, slot->bytes && end < slot->base + slot->room);
}

static uint32_t *watched_by(const struct watch *w, struct heap_slot *slot)
{
	return w->is_behind ? &slot->watched_behind : &slot->watched;
}

static bool hold(struct watch *w)
{
	uint32_t was = 0;

	return atomic_cas(&w->is_busy, &was, 1u);
}

static void let(struct watch *w)
{
	atomic_set(&w->is_busy, 0u);
}

/* The watch is taken. */
static void rest(struct watch *w)
{
	struct heap_slot *slot = w->slot;

	if (!slot)
		return;
	atomic_set(watched_by(w, slot), 0u);
	atomic_set(&w->slot, NULL);
	event_rest(w->moved.event);
}

static int aim(struct watch *w, const struct heap_slot *slot, uint32_t bytes)
{
	uint64_t at = w->is_behind ? slot->start + slot->bytes : slot->start - bytes;
	uint64_t begun = clock_now_ns();
	int err = moved_watch_aim(&w->moved, at, bytes);

	heap_budget_spend_aside(begun);
	return err;
}

static void move_to(struct watch *w, struct heap_slot *slot, uint32_t bytes)
{
	if (!hold(w))
		return;
	if (w->slot)
		atomic_set(watched_by(w, w->slot), 0u);
	w->innocent = 0;
	atomic_set(&w->slot, slot);
	atomic_set(watched_by(w, slot), bytes);
	if (aim(w, slot, bytes)) {
		atomic_set(watched_by(w, slot), 0u);
		atomic_set(&w->slot, NULL);
		counter_add(&heap_region->counters[HEAP_LOST_WATCHES], 1u);
	} else {
		counter_add(&heap_region->counters[HEAP_WATCHED], 1u);
	}
	let(w);
}

/*
 * Most buffers of bytes have a size that is not a multiple of 8. Each of all that there were is as
 * likely to be the one: a buffer that is used for long has its chance in the next run at the
 * latest.
 */
static bool is_chosen(const struct watch *w, const struct heap_slot *slot)
{
	static uint32_t seen;
	const struct heap_slot *now = atomic_get(&w->slot);

	if (slot->bytes % 8 == 0)
		return false;
	uint64_t n = counter_add(&seen, 1u) + 1u;
	return !now || atomic_get(&now->state) != HEAP_SLOT_LIVE ||
	       clock_now_ns() * HASH_MIX >> 32 < (1ull << 32) / n;
}

/*
 * In a virtual machine a move costs as much as all else of a sample. Where many are taken at once,
 * a register stays with each of some for longer: it sees as much, and the others cost less.
 */
static bool may_move(void)
{
	static uint64_t next_ns;
	const uint64_t most = (uint64_t)MOVES_AT_ONCE * MOVE_EVERY_NS;
	uint64_t now = clock_now_ns();
	uint64_t next = counter_get(&next_ns);

	if (heap_region->settings.first)
		return true;
	if (next > now)
		return false;
	atomic_set(&next_ns, (now - next > most ? now - most : next) + MOVE_EVERY_NS);
	return true;
}

/* One thread of a child does, once. */
static void leave_parents(void)
{
	uint32_t count = atomic_swap(&parents_count, 0u);

	for (uint32_t i = 0; i < count; i++) {
		struct watch *w = &watches[i];

		moved_watch_forked(&w->moved);
		w->is_busy = 0;
		if (w->slot)
			*watched_by(w, w->slot) = 0;
		w->slot = NULL;
	}
	if (count)
		atomic_set(&watch_count, count);
}

uint32_t heap_watched_before(const struct heap_slot *slot)
{
	return atomic_get(&watch_count) ? atomic_get(&slot->watched) : 0;
}

uint32_t heap_watched_behind(const struct heap_slot *slot)
{
	return atomic_get(&watch_count) ? atomic_get(&slot->watched_behind) : 0;
}

/*
 * One of three registers is behind the newest block that has room there, and one behind a chosen
 * one.
 */
void heap_watch_newest(struct heap_slot *slot)
{
	if (atomic_get(&parents_count) && heap_budget_is_worth_opening())
		leave_parents();
	uint32_t count = atomic_get(&watch_count);
	uint32_t before = bytes_before(slot);
	uint32_t behind = bytes_behind(slot);

	if (!count || (!before && !behind) || !heap_budget_affords_watches() || !may_move())
		return;
	if (behind && watches[CHOSEN].is_behind && is_chosen(&watches[CHOSEN], slot))
		move_to(&watches[CHOSEN], slot, behind);
	else if (behind && watches[0].is_behind)
		move_to(&watches[0], slot, behind);
	if (before && !watches[count - 1].is_behind)
		move_to(&watches[count - 1], slot, before);
}

void heap_watch_forget(struct heap_slot *slot)
{
	for (uint32_t i = 0; i < watch_count; i++) {
		struct watch *w = &watches[i];

		if (atomic_get(&w->slot) != slot || !hold(w))
			continue;
		if (w->slot == slot)
			rest(w);
		let(w);
	}
	atomic_set(&slot->watched, 0u);
	atomic_set(&slot->watched_behind, 0u);
}

/* ---- what they cost ---- */

static uint64_t switches_of_process(void)
{
	struct rusage usage = { .ru_nvcsw = 0 };

	sys2(SYS_getrusage, RUSAGE_SELF, &usage);
	return (uint64_t)usage.ru_nvcsw + (uint64_t)usage.ru_nivcsw;
}

/*
 * Those that rest already are closed: a register costs at each switch of threads as long as it is
 * open.
 */
static void rest_all(bool is_resting)
{
	for (uint32_t i = 0; i < WATCHES; i++) {
		struct watch *w = &watches[i];

		if (!w->moved.is_open || !hold(w))
			continue;
		rest(w);
		if (is_resting)
			moved_watch_close(&w->moved);
		let(w);
	}
}

void heap_watch_look(void)
{
	uint32_t aimed = 0;
	uint32_t open = 0;

	if (!atomic_get(&watch_count))
		return;
	heap_self.busy++;
	for (uint32_t i = 0; i < WATCHES; i++) {
		aimed += atomic_get(&watches[i].slot) != NULL;
		open += watches[i].moved.is_open;
	}
	uint64_t now = switches_of_process();
	uint64_t before = atomic_swap(&switches_seen, now);
	if (open && now > before) {
		heap_budget_add_watches((now - before) *
					(SWITCH_OPEN_NS + aimed * SWITCH_AIMED_NS));
		if (!heap_budget_affords_watches())
			rest_all(!aimed);
	}
	heap_self.busy--;
}

/* ---- which access ---- */

struct seen {
	const struct trapline_hit *hit;
	struct watch *watch;
	struct heap_slot *slot;
};

static bool is_any_innocent(const struct watch *w, const struct insn_back *back,
			    const struct heap_slot *slot)
{
	uint32_t count = back->found == INSN_BACK_LIKELY ? 1 : back->count;

	for (uint32_t i = 0; i < count && i < INSN_BACK_MAX; i++)
		if (w->is_behind ? heap_is_innocent_behind(&back->candidates[i], slot) :
				   heap_is_innocent_before(&back->candidates[i], slot))
			return true;
	return false;
}

/* The watch is taken. */
static void tell_seen(const struct seen *seen, const struct insn_back *back)
{
	const struct trapline_hit *hit = seen->hit;
	struct heap_error error = {
		.kind = seen->watch->is_behind ? HEAP_OVERFLOW : HEAP_UNDERFLOW,
		.access = HEAP_READ,
		.address = hit->address,
		.slot = seen->slot,
		.context = hit->context,
		.is_done = true,
	};
	const struct insn_back_candidate *c = &back->candidates[0];

	/* First: what Trapline reads of these bytes must not trap. */
	rest(seen->watch);
	if (heap_is_damaged((const void *)(uintptr_t)hit->address, hit->len))
		error.access = HEAP_WRITE;
	if (back->found == INSN_BACK_LIKELY) {
		error.ip = c->address;
		error.bytes = c->size;
		error.address = c->touched;
		error.access = c->access & INSN_WRITE ? HEAP_WRITE : HEAP_READ;
	}
	/* What it leaves in these bytes is reported now. */
	atomic_set(seen->watch->is_behind ? &seen->slot->is_told_behind :
					    &seen->slot->is_told_before,
		   1u);
	heap_tell(&error);
}

static void judge(void *arg)
{
	const struct seen *seen = arg;
	struct watch *w = seen->watch;
	struct insn_regs regs;
	struct hit_code code;
	struct insn_back back;

	insn_regs_from_context(seen->hit->context, &regs);
	hit_insn_find(seen->hit, &regs, &code, &back);
	if (!hold(w))
		return;
	if (w->slot != seen->slot) {
		counter_add(&heap_region->counters[HEAP_LATE], 1u);
	} else if (is_any_innocent(w, &back, seen->slot)) {
		counter_add(&heap_region->counters[HEAP_INNOCENT], 1u);
		if (++w->innocent >= INNOCENT_MAX)
			rest(w);
	} else {
		tell_seen(seen, &back);
	}
	let(w);
}

static enum trapline_action on_watch(const struct trapline_hit *hit)
{
	struct watch *w = hit->arg;
	struct seen seen = { hit, w, atomic_get(&w->slot) };
	struct heap_slot *slot = seen.slot;
	uint64_t begun = clock_now_ns() - TRAP_NS;

	/* Trapline's; or of a block that was freed: the fault before has reported it. */
	if (heap_self.busy || !slot || atomic_get(&slot->state) != HEAP_SLOT_LIVE ||
	    hit->address - slot->base >= slot->room)
		return TRAPLINE_GO_ON;
	if (hit->async) {
		/* The thread is elsewhere by now. What was written there, free() finds. */
		atomic_set(watched_by(w, slot), 0u);
		counter_add(&heap_region->counters[HEAP_LATE], 1u);
	} else if (!heap_fault_call(judge, &seen)) {
		atomic_set(watched_by(w, slot), 0u);
		counter_add(&heap_region->counters[HEAP_LOST_RECORDS], 1u);
	}
	heap_budget_spend_aside(begun);
	return TRAPLINE_GO_ON;
}

/* ---- begin and end ---- */

int heap_watch_start(void)
{
	uint32_t count = 0;

	own_fd_lowest = OWN_FD_OF_EVENTS;
	int err = event_register_fires() ? trap_install() : -ENODEV;
	leave_parents();
	heap_innocent_start();
	atomic_set(&switches_seen, switches_of_process());
	while (!err && count < WATCHES) {
		/* After heap_watch_end() they are there, and opened when they are needed. */
		err = watches[count].moved.event ?
			      0 :
			      moved_watch_open(&watches[count].moved, on_watch, &watches[count]);
		watches[count].is_busy = 0;
		count += !err;
	}
	watches[0].is_behind = count > 1;
	watches[CHOSEN].is_behind = count > CHOSEN + 1;
	atomic_set(&watch_count, count);
	return count ? 0 : err;
}

AT_FORK void heap_watch_forked(void)
{
	if (!watch_count && !parents_count)
		return;
	trap_forked();
	trap_install();
	atomic_set(&switches_seen, switches_of_process());
	/* The child of a child has not left those of both yet. */
	parents_count = watch_count ? watch_count : parents_count;
	watch_count = 0;
}

void heap_watch_end(void)
{
	leave_parents();
	uint32_t count = atomic_swap(&watch_count, 0u);

	for (uint32_t i = 0; i < count; i++) {
		struct watch *w = &watches[i];

		if (hold(w))
			rest(w);
		moved_watch_close(&w->moved);
	}
}
