/* SPDX-License-Identifier: MIT */
/*
 * flow_watch.c - see flow_watch.h.
 *
 * While a window runs in the only thread the registers rest: in it each access is seen, and a trap
 * costs. Where there are other threads they do not, and the window continues over the traps.
 *
 * Rules: 1. The thread that wins `is_busy` by a compare-and-exchange changes watches and the table
 * of copies. A thread that does not win continues without: a copy may then be watched a window
 * later. 2. A forked child has no watches until it makes its own, and never moves those of its
 * parent.
 */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/own_fd.h"
#include "base/sys.h"
#include "code/insn/insn_context.h"
#include "core/moved_watch.h"
#include "event/aim.h"
#include "event/event.h"
#include "event/fires.h"
#include "flow/flow_budget.h"
#include "flow/flow_marks.h"
#include "flow/flow_source.h"
#include "flow/flow_state.h"
#include "flow/flow_step.h"
#include "flow/flow_watch.h"
#include "flow/flow_window.h"
#include "trap/dispatch.h"
#include "trap/install.h"

#define WATCHES 4u
#define KEPT 128u
#define TRAP_NS 10000u /* until Trapline's handler runs, and after it */

struct watch {
	struct moved_watch moved;
	uint64_t at; /* 0: it rests */
	uint32_t bytes;
	uint32_t is_on;
};

struct place {
	uint64_t at;
	uint32_t bytes;
};

static struct watch watches[WATCHES];
static uint32_t watch_count;
static struct flow_kept kept[KEPT];
static uint32_t kept_count;
static uint64_t kept_order;
static uint32_t is_busy;
static uint32_t windows; /* for which they rest */
static pid_t owner;

static int hold(void)
{
	uint32_t was = 0;

	return owner == sys_getpid() && atomic_cas(&is_busy, &was, 1u);
}

static void let(void)
{
	atomic_set(&is_busy, 0u);
}

/* ---- which copies ---- */

void flow_watch_page(uint64_t page)
{
	uint32_t n = 0;

	if (!atomic_get(&watch_count) || !hold())
		return;
	for (uint32_t i = 0; i < kept_count; i++)
		if (kept[i].address >> 12 != page)
			kept[n++] = kept[i];
	kept_count = n;
	let();
}

void flow_watch_keep(uint64_t address, uint32_t bytes, int is_computed)
{
	uint32_t at = kept_count;

	if (!atomic_get(&watch_count) || !hold())
		return;
	/* The oldest gives way. */
	for (uint32_t i = 0; kept_count == KEPT && i < KEPT; i++)
		if (at == KEPT || kept[i].order < kept[at].order)
			at = i;
	kept[at] = (struct flow_kept){ address, ++kept_order, bytes, (uint32_t)is_computed };
	kept_count += at == kept_count;
	let();
}

/* A register takes 1, 2, 4 or 8 bytes, aligned to as many: none but those of the copy. */
static struct place first_part(uint64_t at, uint32_t bytes)
{
	const uint64_t aligned = (at + MOVED_WATCH_BYTES - 1) & ~(uint64_t)(MOVED_WATCH_BYTES - 1);
	uint32_t part = MOVED_WATCH_BYTES;

	if (aligned + MOVED_WATCH_BYTES <= at + bytes)
		return (struct place){ aligned, MOVED_WATCH_BYTES };
	while (part > bytes || at & (part - 1))
		part /= 2;
	return (struct place){ at, part };
}

static struct place last_part(uint64_t at, uint32_t bytes)
{
	const uint64_t end = (at + bytes) & ~(uint64_t)(MOVED_WATCH_BYTES - 1);

	return end >= at + 2 * MOVED_WATCH_BYTES ?
		       (struct place){ end - MOVED_WATCH_BYTES, MOVED_WATCH_BYTES } :
		       (struct place){ 0, 0 };
}

static uint32_t put_place(struct place *places, uint32_t n, uint32_t most, struct place place)
{
	for (uint32_t i = 0; i < n; i++)
		if (places[i].at == place.at)
			return n;
	if (n < most && place.at)
		places[n++] = place;
	return n;
}

/* The newest of those that were moved only, then the ends of these, then what was computed. */
static uint32_t choose(struct place *places, uint32_t most)
{
	uint32_t n = 0;
	uint64_t below = UINT64_MAX;

	for (uint32_t i = 0; i < flow_variable_count; i++)
		n = put_place(places, n, most,
			      first_part(flow_variables[i].address, flow_variables[i].bytes));
	for (unsigned int round = 0; round < 3 && n < most; round++, below = UINT64_MAX) {
		for (uint32_t k = 0; k < kept_count && n < most; k++) {
			const struct flow_kept *best = NULL;

			for (uint32_t i = 0; i < kept_count; i++)
				if (kept[i].order < below && kept[i].is_computed == (round == 2) &&
				    (!best || kept[i].order > best->order))
					best = &kept[i];
			if (!best)
				break;
			below = best->order;
			n = put_place(places, n, most,
				      round == 1 ? last_part(best->address, best->bytes) :
						   first_part(best->address, best->bytes));
		}
	}
	return n;
}

/* ---- the registers ---- */

static void turn_off(struct watch *w)
{
	if (w->is_on)
		event_rest(w->moved.event);
	w->is_on = 0;
}

static void turn_on(struct watch *w, struct place place)
{
	if (w->is_on && w->at == place.at && w->bytes == place.bytes)
		return;
	w->at = place.at;
	w->bytes = place.bytes;
	int err = moved_watch_aim(&w->moved, place.at, place.bytes);
	w->is_on = !err;
}

static int has_other_threads(void)
{
	struct stat st;

	/* The caller, one of Trapline, and two names of directories. */
	return sys4(SYS_newfstatat, AT_FDCWD, "/proc/self/task", &st, 0) || st.st_nlink > 4;
}

int flow_watch_rest(void)
{
	if (!atomic_get(&watch_count) || has_other_threads())
		return 0;
	atomic_add(&windows, 1u);
	if (!hold())
		return 1;
	for (uint32_t i = 0; i < watch_count; i++)
		turn_off(&watches[i]);
	let();
	return 1;
}

int flow_watch_owns(uint64_t address)
{
	for (uint32_t i = 0; i < watch_count; i++)
		if (address - watches[i].at < MOVED_WATCH_BYTES)
			return 1;
	return 0;
}

static void aim_all(void)
{
	struct place places[WATCHES];
	const uint32_t n = choose(places, watch_count);
	uint32_t copies = 0;

	for (uint32_t i = 0; i < watch_count; i++) {
		if (i < n)
			turn_on(&watches[i], places[i]);
		else
			turn_off(&watches[i]);
	}
	for (uint32_t i = 0; i < kept_count; i++)
		copies += !kept[i].is_computed;
	flow_count(FLOW_KEPT, copies);
	flow_count(FLOW_KEPT_WATCHED, copies < n ? copies : n);
}

void flow_watch_aim(int has_rested)
{
	if (!atomic_get(&watch_count))
		return;
	if (has_rested && atomic_get(&windows))
		atomic_add(&windows, -1u);
	if (atomic_get(&windows))
		return;
	if (flow_is_over() || !hold())
		return;
	aim_all();
	let();
}

/* ---- an access ---- */

struct touch {
	const struct trapline_hit *hit;
	struct flow_thread *thread;
};

static void pause_all(void)
{
	if (!hold())
		return;
	for (uint32_t i = 0; i < watch_count; i++)
		turn_off(&watches[i]);
	let();
}

static void drop_copies_at(uint64_t address)
{
	if (!hold())
		return;
	for (uint32_t i = 0; i < kept_count; i++)
		if (address - kept[i].address < kept[i].bytes)
			kept[i--] = kept[--kept_count];
	if (!atomic_get(&windows))
		aim_all();
	let();
}

static int is_still_there(struct flow_thread *t, const struct trapline_hit *hit)
{
	const uint64_t page = hit->address >> 12;

	const flow_mark *marks = flow_marks_page(page);
	if (!marks ||
	    sys_read_memory(sys_getpid(), page << 12, t->page, sizeof(t->page)) != sizeof(t->page))
		return 0;
	for (uint32_t i = hit->address & 4095, n = 0; n < hit->len; n++)
		if (marks[i + n] && flow_marks_holds(page, i + n, t->page))
			return 1;
	return 0;
}

static void take_variables(struct flow_thread *t, const struct trapline_hit *hit)
{
	struct insn_regs regs;
	const struct flow_moment m = {
		.thread = t, .regs = regs.r, .pc = hit->ip, .context = hit->context
	};

	insn_regs_from_context(hit->context, &regs);
	for (uint32_t i = 0; i < flow_variable_count; i++) {
		struct flow_variable *v = &flow_variables[i];

		if (hit->address - v->address < v->bytes)
			flow_source_variable(&m, v);
	}
}

static void look_at_touch(void *arg)
{
	const struct touch *touch = arg;
	const struct trapline_hit *hit = touch->hit;
	struct flow_thread *t = touch->thread;
	struct insn_regs after;
	const uint64_t begun = clock_ns(CLOCK_THREAD_CPUTIME_ID) - TRAP_NS;

	flow_count(FLOW_TOUCHED, 1);
	t->pages_fresh = 0;
	take_variables(t, hit);
	if (!is_still_there(t, hit)) {
		drop_copies_at(hit->address);
		flow_spend(FLOW_TRAP_NS, clock_ns(CLOCK_THREAD_CPUTIME_ID) - begun);
		return;
	}
	flow_regs_forget(t);
	t->suspended_pc = 0;
	t->idle = 0;
	/* The window takes the context over. */
	insn_regs_from_context(hit->context, &after);
	const int has_begun = flow_window_begin(t, hit->context);
	/*
	 * SIGTRAP was blocked: the thread is elsewhere by now, and what it did in the meantime was
	 * not seen.
	 */
	if (hit->async)
		flow_count(FLOW_LATE, 1);
	else if (has_begun)
		flow_touch(t, hit, &after);
	/* Without a window it would trap again and again. */
	if (!has_begun)
		pause_all();
	flow_spend(FLOW_TRAP_NS, clock_ns(CLOCK_THREAD_CPUTIME_ID) - begun);
}

static enum trapline_action on_watch(const struct trapline_hit *hit)
{
	struct touch touch = { .hit = hit };

	if (flow_is_over() || owner != sys_getpid())
		return TRAPLINE_GO_ON;
	touch.thread = flow_thread_take();
	if (touch.thread)
		flow_on_own_stack(touch.thread->area, look_at_touch, &touch);
	else
		flow_count(FLOW_LOST_WINDOW, 1);
	return TRAPLINE_GO_ON;
}

/* ---- begin and end ---- */

/* The child's own, in the one thread that it has. */
static void forked(void)
{
	if (!atomic_get(&watch_count))
		return;
	trap_forked();
	trap_install();
	owner = sys_getpid();
	is_busy = 0;
	windows = 0;
	for (uint32_t i = 0; i < watch_count; i++) {
		struct watch *w = &watches[i];

		moved_watch_forked(&w->moved);
		w->is_on = 0;
	}
	aim_all();
}

uint32_t flow_watch_start(void)
{
	uint32_t count = 0;

	if (trap_install())
		return 0;
	own_fd_lowest = OWN_FD_OF_EVENTS;
	owner = sys_getpid();
	while (count < WATCHES && (count || event_register_fires()) &&
	       !moved_watch_open(&watches[count].moved, on_watch, &watches[count]))
		count++;
	flow_count(FLOW_REGISTERS, count);
	if (count)
		pthread_atfork(NULL, NULL, forked);
	atomic_set(&watch_count, count);
	if (count && flow_variable_count)
		flow_watch_aim(0);
	return count;
}

void flow_watch_end(void)
{
	const uint32_t count = atomic_swap(&watch_count, 0u);

	if (owner != sys_getpid())
		return;
	for (uint32_t i = 0; i < count; i++) {
		turn_off(&watches[i]);
		moved_watch_close(&watches[i].moved);
	}
}
