/* SPDX-License-Identifier: MIT */
/*
 * control.c - enable, disable, move and read an open event. Safe in a handler.
 *
 * Many threads may want the event on or off at once: a callback that used up the limit, another
 * that re-arms, the user. Only the wish is written (`wanted`, `limit`). One thread at a time, the
 * owner of `op`, makes the kernel agree with it, and inspects it again before it releases `op`. So
 * no thread ever waits for a lock inside a handler, and the last wish wins.
 */
#include "base/general_regs.h"

#include "event/control.h"

#include <errno.h>

#include "base/atomic.h"
#include "base/sys.h"
#include "base/tasks.h"
#include "event/attr.h"
#include "event/births.h"
#include "record/layout.h"

enum {
	OP_FREE,
	OP_HELD,
	OP_AGAIN
};

/* Bounded, because the holder may be the very thread that a signal handler interrupted. */
#define SPINS_MAX 100000
#define SPINS_FAST 1000 /* then the holder has many threads to go through */
#define SPIN_PAUSE_NS 50000

int event_budget_left(const struct trapline_event *ev)
{
	if (!ev->has_limit)
		return 1;
	if (ev->control)
		return atomic_get(&ev->control->budget) > 0;
	return atomic_get(&ev->granted) < atomic_get(&ev->limit);
}

int event_skips(struct trapline_event *ev)
{
	if (!ev->skip || atomic_add(&ev->skipped, 1u) >= ev->skip)
		return 0;
	counter_add(&ev->rejected_skip, 1);
	return 1;
}

static int ioctl_all(struct trapline_event *ev, unsigned long request)
{
	size_t n = ev->roots.count * ev->roots.fds_per_root;

	for (size_t i = 0; i < n; i++)
		sys_ioctl(ev->roots.fds[i], request, 0);
	return 0;
}

/*
 * A descriptor that the program has closed, or uses for another file, costs the event of that
 * thread only.
 */
static int modify_all(struct trapline_event *ev)
{
	uint32_t cpus = ev->roots.fds_per_root / ev->part_count;
	size_t n = ev->roots.count * ev->roots.fds_per_root;
	struct perf_event_attr attr;
	int lost = 0;
	int is_any = 0;

	for (size_t i = 0; i < n; i++) {
		if (ev->roots.fds[i] < 0)
			continue;
		uint32_t part = (uint32_t)(i % ev->roots.fds_per_root) / cpus;

		event_attr_for_part(ev, part, &attr);
		attr.disabled = !ev->applied && !event_parks(ev);
		int err = sys_ioctl(ev->roots.fds[i], PERF_EVENT_IOC_MODIFY_ATTRIBUTES,
				    (uintptr_t)&attr);
		if (err == -EBADF || err == -ENOTTY)
			lost = err;
		else if (err)
			return err;
		else
			is_any = 1;
	}
	return is_any ? 0 : lost;
}

static int enable_all(struct trapline_event *ev)
{
	return ioctl_all(ev, PERF_EVENT_IOC_ENABLE);
}

/* One round over all threads: they are where the event is, and on if it is. */
static int pass(struct trapline_event *ev)
{
	if (event_parks(ev))
		return modify_all(ev);
	return ev->applied ? enable_all(ev) : ioctl_all(ev, PERF_EVENT_IOC_DISABLE);
}

/*
 * A state is copied from the thread that bears: off, while MODIFY_ATTRIBUTES is at it or if it was
 * left out before. So one that is left out can hand that on to the next one before a round finds
 * it. Each round ends all but those of these that create one at that very moment, and this is over
 * when none is created.
 */
#define STATE_PASSES_MAX 16
#define QUIET_PASSES 2 /* in a row, that found none created */

static int pass_on_state(struct trapline_event *ev, struct births *births)
{
	int (*again)(struct trapline_event *) = event_parks(ev) ? enable_all : pass;
	int err = births_wait(births, ev->pid, BIRTHS_OF_ALL);
	int quiet = 0;

	again(ev);
	for (int i = 0; !err && quiet < QUIET_PASSES && i < STATE_PASSES_MAX; i++) {
		err = births_wait(births, ev->pid, BIRTHS_OF_YOUNG);
		again(ev);
		quiet = births->born ? 0 : quiet + 1;
	}
	return err;
}

/*
 * A thread that is being created during a round is left out, but not by a round after its creation.
 * An address is always copied from the event that was opened, so for that the second round is the
 * last one.
 */
static int pass_again(struct trapline_event *ev)
{
	struct births births = { 0 };
	int err = 0;
	int unsure = births_wait(&births, ev->pid, BIRTHS_OF_ALL);

	if (births.others || unsure) {
		births_note_elders(&births);
		err = pass(ev);
		if (!err && (ev->applied || !event_parks(ev)))
			unsure = pass_on_state(ev, &births);
		counter_add(&ev->changes_unsure, unsure < 0);
	}
	births_free(&births);
	return err;
}

/* The kernel agrees with ev->applied and where the parts are, in all threads. 0 or -errno. */
static int change(struct trapline_event *ev)
{
	int err = pass(ev);

	if (err || !ev->is_inherited)
		return err;
	/* Used up, or about to be released: what a thread still takes has no effect. */
	if (!ev->applied && (atomic_get(&ev->wanted) || atomic_get(&ev->state) != EVENT_LIVE))
		return pass(ev);
	return pass_again(ev);
}

static void give_up(struct trapline_event *ev)
{
	atomic_set(&ev->wanted, 0);
	ev->applied = 0;
	ioctl_all(ev, PERF_EVENT_IOC_DISABLE);
}

static void apply(struct trapline_event *ev)
{
	uint32_t on = atomic_get(&ev->wanted) && event_budget_left(ev);

	if (on == ev->applied)
		return;
	ev->applied = on;
	if (event_is_shared(ev)) {
		atomic_set(&ev->control->is_off, (uint64_t)!on);
		return;
	}
	if (event_is_in_code(ev))
		return;
	/* What happened while it was off is not the change of a hit. */
	if (on)
		event_read_first_values(ev);
	if (change(ev))
		give_up(ev);
	else if (on)
		event_settle_first_values(ev);
}

void event_unlock(struct trapline_event *ev)
{
	uint32_t held;

	do {
		atomic_set(&ev->op, OP_HELD);
		apply(ev);
		held = OP_HELD;
		ev->op_owner = 0;
	} while (!atomic_cas(&ev->op, &held, OP_FREE));
}

static int try_lock(struct trapline_event *ev)
{
	uint32_t expected = OP_FREE;

	if (!atomic_cas(&ev->op, &expected, OP_HELD))
		return 0;
	ev->op_owner = sys_gettid();
	return 1;
}

static void spin(int nth)
{
	struct timespec pause = { 0, SPIN_PAUSE_NS };

	if (nth < SPINS_FAST)
		sys_sched_yield();
	else
		sys_nap(&pause);
}

static int event_lock(struct trapline_event *ev)
{
	for (int i = 0; i < SPINS_MAX; i++) {
		if (try_lock(ev))
			return 0;
		if (ev->op_owner == sys_gettid())
			break;
		spin(i);
	}
	return -EDEADLK;
}

void event_sync(struct trapline_event *ev)
{
	for (int i = 0; i < SPINS_MAX; i++) {
		uint32_t expected = OP_HELD;

		if (try_lock(ev)) {
			event_unlock(ev);
			return;
		}
		atomic_cas(&ev->op, &expected, OP_AGAIN);
		if (ev->op_owner == sys_gettid())
			return; /* it was interrupted, and will inspect it again */
		spin(i);
	}
}

static struct event_place *places_of(struct trapline_event *ev, uint32_t part)
{
	return ev->control ? ev->control->places[part] : ev->places[part];
}

struct event_place *event_place_at(struct trapline_event *ev, uint32_t part, uint64_t addr)
{
	struct event_place *places = places_of(ev, part);

	for (uint32_t i = 0; i < EVENT_PLACES; i++)
		if (places[i].addr == addr)
			return &places[i];
	return NULL;
}

/* Replaces the older one of two. */
static void place_set(struct trapline_event *ev, uint32_t part, uint64_t value)
{
	const struct event_part *to = &ev->parts[part];
	struct event_place *place = &places_of(ev, part)[ev->place_now[part]];

	if (place->addr != to->addr || place->len != to->len) {
		ev->place_now[part] = (ev->place_now[part] + 1) % EVENT_PLACES;
		place = &places_of(ev, part)[ev->place_now[part]];
	}
	/*
	 * Programs of other threads read it in the meantime: they find it whole, or not at all.
	 */
	uint64_t again = PLACE_ARMED_AGAIN;
	if (place->addr != to->addr || place->len != to->len) {
		atomic_set(&place->addr, 0);
		again = 0;
	}
	atomic_set(&place->when, TRAPLINE_VALUE_AT_HIT | RECORD_OLD_UNKNOWN | again);
	atomic_set(&place->len, to->len);
	atomic_set(&place->last, value);
	__atomic_store_n(&place->addr, to->addr, __ATOMIC_RELEASE);
}

void event_read_first_values(struct trapline_event *ev)
{
	for (uint32_t i = 0; event_is_data(ev) && i < ev->part_count; i++) {
		uint64_t value = 0;

		tasks_read_memory(ev->pid, ev->parts[i].addr, &value, ev->parts[i].len);
		place_set(ev, i, value);
		ev->unseen[i].is_found = 0;
	}
}

/* Where an access is reported before it, memory does not contain the last hit's value. */
static int holds_last(const struct trapline_event *ev, const struct event_place *place)
{
#if defined(__x86_64__)
	uint64_t value = 0;

	return tasks_read_memory(ev->pid, place->addr, &value, place->len) != (ssize_t)place->len ||
	       value == atomic_get(&place->last);
#else
	return 1;
#endif
}

void event_settle_first_values(struct trapline_event *ev)
{
	for (uint32_t i = 0; event_is_data(ev) && i < ev->part_count; i++) {
		struct event_place *place = event_place_at(ev, i, ev->parts[i].addr);

		if (!place)
			continue;
		/*
		 * It was stored by a thread not yet armed, or by one whose hit is on its way: it is
		 * unknown which.
		 */
		uint64_t when = TRAPLINE_VALUE_AT_HIT | (place->when & PLACE_ARMED_AGAIN);
		if (!holds_last(ev, place))
			when |= RECORD_OLD_UNKNOWN | PLACE_UNKNOWN_ONCE;
		atomic_set(&place->when, when);
	}
}

static void shift_parts(struct trapline_event *ev, uint64_t from, uint64_t to)
{
	for (uint32_t i = 0; i < ev->part_count; i++)
		atomic_set(&ev->parts[i].addr, ev->parts[i].addr - from + to);
	event_read_first_values(ev);
}

/* A new address must split into the same parts; only a part alone can change its length. */
static int can_move(const struct trapline_event *ev, uint64_t addr, uint32_t len)
{
	if (!event_is_breakpoint(ev) || event_is_shared(ev) || event_is_in_code(ev))
		return 0;
	if (!event_is_data(ev))
		return !len;
	if (len)
		return ev->part_count == 1 && len <= 8 && !(len & (len - 1)) && !(addr % len);
	for (uint32_t i = 0; i < ev->part_count; i++)
		if ((addr + ev->parts[i].addr - ev->parts[0].addr) % ev->parts[i].len)
			return 0;
	return 1;
}

/*
 * What is parked cannot find out that the kernel takes no such address. Tried in this thread alone.
 */
static int try_address(const struct trapline_event *ev, uint64_t addr)
{
	struct perf_event_attr attr;

	event_attr_for_part(ev, 0, &attr);
	attr.bp_addr = addr;
	attr.disabled = 1;
	attr.inherit = 0;
	attr.inherit_thread = 0;
	int fd = sys_perf_event_open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd >= 0)
		sys_close(fd);
	return fd == -EINVAL || fd == -EPERM ? -EINVAL : 0;
}

/*
 * A clone copies address and length one after the other. If both change at once, it can meet a pair
 * that the kernel refuses, and fail. Parked, the event fits any length.
 */
static int change_length(struct trapline_event *ev, uint32_t len)
{
	uint32_t applied = ev->applied;
	int err = 0;

	if (event_parks(ev) && applied && len != ev->parts[0].len) {
		ev->applied = 0;
		err = pass(ev);
		ev->parts[0].len = len;
		if (!err)
			err = pass(ev);
		ev->applied = applied;
	}
	ev->parts[0].len = len;
	return err;
}

static int move_to(struct trapline_event *ev, uint64_t addr, uint32_t len)
{
	uint64_t from = ev->parts[0].addr;
	int err = change_length(ev, len);

	shift_parts(ev, from, addr);
	if (err)
		return err;
	if (!event_parks(ev) || ev->applied)
		err = event_parks(ev) ? change(ev) : modify_all(ev);
	else
		err = pass(ev); /* only the generation is passed on */
	return err;
}

int event_move(struct trapline_event *ev, uint64_t addr, uint32_t len)
{
	if (!can_move(ev, addr, len))
		return -EINVAL;
	int err = event_lock(ev);
	if (err)
		return err;

	uint64_t from = ev->parts[0].addr;
	uint32_t len_before = ev->parts[0].len;

	if (event_parks(ev) && !ev->applied)
		err = try_address(ev, addr);
	if (err)
		goto out_unlock;
	/* Hits on their way carry the old generation and are dropped as late. */
	atomic_add(&ev->generation, 1u);
	err = move_to(ev, addr, len ? len : len_before);
	if (err && move_to(ev, from, len_before)) {
		/* Left half-way over the threads: off is the only honest state. */
		give_up(ev);
		err = -EIO;
	} else if (err) {
		counter_add(&ev->move_repairs, 1);
	}
	event_settle_first_values(ev);
out_unlock:
	event_unlock(ev);
	return err;
}

static uint64_t event_stepped(const struct trapline_event *ev)
{
	return atomic_get(&ev->stepped) + (ev->control ? atomic_get(&ev->control->stepped) : 0);
}

/* Sum over all threads, dead ones included; only threads found in later rounds if asked. */
int event_read_count(const struct trapline_event *ev, int later_classes_only, uint64_t *out)
{
	const struct event_roots *roots = &ev->roots;
	size_t count = atomic_get(&roots->count);
	const int *fds = atomic_get(&roots->fds);
	const uint32_t *classes = atomic_get(&roots->classes);
	uint64_t sum = 0;

	if (event_is_shared(ev)) {
		*out = atomic_get(&ev->control->seen);
		return 0;
	}

	/* Nothing counts but the handler. */
	if (event_is_in_code(ev)) {
		*out = atomic_get(&ev->hits) + atomic_get(&ev->lost_nested);
		return 0;
	}

	for (size_t r = 0; r < count; r++) {
		if (later_classes_only && !classes[r])
			continue;
		for (uint32_t i = 0; i < roots->fds_per_root; i++) {
			int fd = fds[r * roots->fds_per_root + i];
			uint64_t value;

			if (fd < 0)
				continue;
			ssize_t n = sys_read(fd, &value, sizeof(value));
			if (n < 0)
				return (int)n;
			sum += n == sizeof(value) ? value : 0;
		}
	}
	uint64_t stepped = later_classes_only ? 0 : event_stepped(ev);
	*out = sum > stepped ? sum - stepped : 0;
	return 0;
}
