/* SPDX-License-Identifier: MIT */
/*
 * race_watch_open.c - the watches and breakpoints of this process are opened, and measured.
 *
 * Debug registers: those of the CPUs where trapline opened them (race_watch_cpus.c). Otherwise
 * up to three watchpoints for the whole process, opened once, disabled, and moved to the
 * address of each stall, or opened for each stall (race_watch_threads.c). One register is
 * left for the breakpoint at the access ahead. Not in a handler.
 */
#include "race/watch/race_watch_open.h"

#include <errno.h>
#include <signal.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/own_fd.h"
#include "base/sys.h"
#include "base/tasks.h"
#include "core/own_event.h"
#include "event/aim.h"
#include "event/arm.h"
#include "event/attr.h"
#include "event/limit.h"
#include "event/table.h"
#include "race/race.h"
#include "race/race_aim.h"
#include "race/race_state.h"
#include "race/race_strategy.h"
#include "race/race_turn.h"
#include "race/stall/race_second.h"
#include "race/stall/race_slot.h"
#include "race/watch/race_watch.h"
#include "race/watch/race_watch_cpus.h"

#define WATCH_BYTES 8u
#define TRAP_NS 10000u /* of one trap, where it could not be measured */
/* Beside the watch of the CPUs: with more threads, to open one in each of them takes too long. */
#define THREADS_FEW RACE_AGAIN_THREADS
#define THREADS_MORE 256u /* created while the others are armed */
#define THREADS_MOST 16384u

/* In all threads; the next slot. */
static int open_watch(const struct race_watch_ops *ops)
{
	struct race_slot *slot = &race.slots[race.slot_count];
	struct trapline_event *ev = event_own(race_on_watch, slot, TRAPLINE_PROCESS);

	if (!ev)
		return -ENFILE;
	/* Any address will do: it is disabled, and only moved ones are enabled. */
	event_describe_range(ev, (uintptr_t)&race & ~7ull, WATCH_BYTES, TRAPLINE_READ_WRITE);
	event_own_begin(ev);
	int err = event_arm(ev, NULL, 0, NULL);
	if (err) {
		event_give(ev);
		return err;
	}
	slot->event = ev;
	slot->ops = ops;
	slot->state = SLOT_FREE;
	race.slot_count++;
	return 0;
}

/*
 * There is one watch of the CPUs for all processes. Threads that are stalled at the same time cost
 * the program no more than one of them, so those of few threads have watches of their own as well.
 */
static void open_watches_beside(void)
{
	while (race.slot_count < RACE_SLOTS && !open_watch(&race_watch_again)) {
		struct race_slot *slot = &race.slots[race.slot_count - 1];

		event_let_go(slot->event);
		if (!event_reserve(slot->event, THREADS_FEW))
			continue;
		event_free(slot->event);
		slot->event = NULL;
		race.slot_count--;
		return;
	}
}

static int open_watch_of_cpus(void)
{
	struct trapline_event *ev = event_own(race_on_watch, &race.slots[0], TRAPLINE_PROCESS);

	if (!ev)
		return -ENFILE;
	event_describe_range(ev, (uintptr_t)&race & ~7ull, WATCH_BYTES, TRAPLINE_READ_WRITE);
	event_own_begin(ev);
	race_cpu_event(ev, RACE_CPU_WATCH);
	race.slots[0].event = ev;
	race.slots[0].ops = &race_watch_cpus;
	race.slot_count = 1;
	race.process->is_on_cpus = 1;
	open_watches_beside();
	race.process->watches = race.slot_count;
	return 0;
}

static int open_watches(void)
{
	int err = 0;

	while (!err && race.slot_count < RACE_SLOTS)
		err = open_watch(race_watch);
	race.process->watches = race.slot_count;
	return race.slot_count ? 0 : err;
}

/* One that is opened in the thread that needs it; PROCESS: those that it creates have it too. */
static int prepare_aim(struct race_aim *aim, enum trapline_scope scope)
{
	struct trapline_event *ev = event_own(race_on_aim, aim, scope);

	if (!ev)
		return -ENFILE;
	event_describe_code(ev, 0);
	event_own_begin(ev);
	ev->roots.fds = &aim->fd;
	ev->roots.classes = &aim->class;
	aim->event = ev;
	aim->state = AIM_FREE;
	aim->tid = 0;
	return 0;
}

static int prepare_aims(void)
{
	int err = 0;

	for (int i = 0; !err && i < RACE_AIM_ROWS; i++)
		err = prepare_aim(&race.aims[i], TRAPLINE_CALLER);
	return err;
}

/*
 * That they can be had is known now. They are opened again for each stall: see
 * race_watch_threads.c.
 */
static int put_watches_away(void)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < race.slot_count; i++) {
		event_let_go(race.slots[i].event);
		err = event_reserve(race.slots[i].event, THREADS_MOST);
	}
	return err;
}

static int open_break_of_cpus(void)
{
	struct race_aim *aim = &race.shared_aim;
	int err = prepare_aim(aim, TRAPLINE_PROCESS);

	if (err)
		return err;
	race_cpu_event(aim->event, RACE_CPU_BREAK);
	atomic_set(&race.has_shared_aim, 1u);
	return 0;
}

/* A watch of all threads: only where they will inherit it, see race_aim.c. */
static int prepare_shared_aim(void)
{
	struct race_aim *aim = &race.shared_aim;
	struct trapline_event *ev = event_own(race_on_aim, aim, TRAPLINE_PROCESS);

	if (!ev)
		return -ENFILE;
	/* Any address will do, as above. */
	event_describe_code(ev, (uintptr_t)race_on_aim);
	event_own_begin(ev);
	int err = event_arm(ev, NULL, 0, NULL);
	if (err) {
		event_give(ev);
		return err;
	}
	aim->event = ev;
	atomic_set(&race.has_shared_aim, 1u);
	return 0;
}

/* Opened in the thread that creates another one, which inherits it. */
static int prepare_inherited_aim(void)
{
	return prepare_aim(&race.shared_aim, TRAPLINE_PROCESS);
}

static int nothing(void)
{
	return 0;
}

/* The steps to open what race_watch.h moves. */
struct way {
	const struct race_watch_ops *ops;
	int (*open_watches)(void);
	int (*open_breaks)(void);
	int (*open_shared)(void); /* a breakpoint that new threads inherit */
	int (*get_ready)(void);
};

static int open_breaks(void);

static const struct way of_cpus = { &race_watch_cpus, open_watch_of_cpus, open_break_of_cpus,
				    nothing, nothing };
static const struct way opened_again = { &race_watch_again, open_watches, open_breaks,
					 prepare_inherited_aim, put_watches_away };
static const struct way kept = { &race_watch_kept, open_watches, open_breaks, prepare_shared_aim,
				 nothing };
static const struct way *way = &kept;

static enum trapline_action on_probe(const struct trapline_hit *hit)
{
	return TRAPLINE_GO_ON;
}

static __attribute__((noipa)) void probe_here(void)
{
	__asm__ volatile("" ::: "memory");
}

static int is_trap_blocked(void)
{
	uint64_t mask = 0;

	sys4(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, sizeof(mask));
	return (int)(mask >> (SIGTRAP - 1) & 1);
}

/*
 * The cost of one trap here, and whether a breakpoint can be had at all. In a thread that is
 * stopped from outside no signal comes: then the command has measured it.
 */
static int measure_trap(void)
{
	struct trapline_event *ev = race.aims[0].event;
	int is_blocked = is_trap_blocked();
	uint64_t best = UINT64_MAX;

	ev->callback = on_probe;
	int err = event_aim_self(ev, (uintptr_t)probe_here);
	for (int i = 0; !err && !is_blocked && !race.budget.trap_ns && i < 8; i++) {
		uint64_t start = clock_now_ns();
		probe_here();
		uint64_t took = clock_now_ns() - start;
		best = took < best ? took : best;
	}
	event_let_go(ev);
	ev->callback = race_on_aim;
	if (!err && !race.budget.trap_ns)
		race.budget.trap_ns = is_blocked ? TRAP_NS : best;
	return err;
}

/* One register is for the breakpoint: another program may use one, too. */
static int prepare_break(void)
{
	int err = measure_trap();

	while (err == -ENOSPC && race.slot_count > 1) {
		struct race_slot *slot = &race.slots[--race.slot_count];

		event_let_go(slot->event);
		event_free(slot->event);
		slot->event = NULL;
		race.process->watches = race.slot_count;
		err = measure_trap();
	}
	/* Creation of threads is reported only where the event was there before all of them. */
	return err || race.flags & RACE_IS_LATE ? err : way->open_shared();
}

static int open_breaks(void)
{
	int err = prepare_aims();

	return err ? err : prepare_break();
}

/*
 * Below Trapline's descriptors all are the program's: it may not run short of them while Trapline
 * opens its own.
 */
int race_watch_have_descriptors(void)
{
	const size_t first = own_fd_table ? OWN_FD_OF_TABLE : OWN_FD_OF_EVENTS;
	struct task_list list = { 0 };
	if (!race_watch->is_of_threads) {
		event_limit_raise(first + RACE_SLOTS * THREADS_FEW);
		return 0;
	}
	int err = tasks_read(race.pid, &list);
	size_t needed = first + RACE_AIM_ROWS + list.count * (RACE_SLOTS + RACE_TIMERS);

	tasks_free(&list);
	if (!err && event_limit_raise(needed + THREADS_MORE * (RACE_SLOTS + RACE_TIMERS)))
		err = event_limit_raise(needed);
	return err;
}

void race_watch_choose(void)
{
	race_cpus_start();
	way = race.cpus.count ? &of_cpus : race.flags & RACE_HAS_TICKS ? &opened_again : &kept;
	race_watch = way->ops;
}

int race_watch_open(void)
{
	return way->open_watches();
}

int race_break_open(void)
{
	return way->open_breaks();
}

int race_watch_get_ready(void)
{
	return way->get_ready();
}

int race_turn_open(void)
{
	struct race_aim *turn = &race.turn;

	if (!(race.flags & RACE_IS_LATE) || !race_strategy->rotates)
		return 0;
	struct trapline_event *ev = event_own(race_on_turn, turn, TRAPLINE_PROCESS);
	if (!ev)
		return -ENFILE;
	/* Any address will do: it is disabled, and moved before it is enabled. */
	event_describe_code(ev, (uintptr_t)race_on_turn);
	event_own_begin(ev);
	int err = event_arm(ev, NULL, 0, NULL);
	if (!err && race_watch_opens_some()) {
		event_let_go(ev);
		err = event_reserve(ev, RACE_AGAIN_THREADS);
	}
	if (err) {
		event_give(ev);
		return err == -ENOSPC ? 0 : err;
	}
	turn->event = ev;
	return 0;
}
