/* SPDX-License-Identifier: MIT */
/*
 * race_aim.c - the breakpoint at the access that was chosen.
 *
 * An execution breakpoint traps before the instruction. The thread then is exactly
 * there, with all the registers that the access will use.
 *
 * Where all events were inherited, one breakpoint serves all threads: the first thread that reaches
 * it is stalled, whichever thread chose it. An event in a single thread would make its events
 * differ from those of the other threads for good. The kernel would then reload all of them at each
 * switch between the two (context_equiv() in kernel/events/core.c). For the same reason there is
 * one breakpoint if it is an event of the CPUs: it is armed only on the CPU of its thread.
 *
 * Where no event was inherited, each thread has a breakpoint of its own, for the moment.
 * If threads ran before the search and have clocks of their own, a row stays open for its
 * thread, because moving a breakpoint costs a fifth of opening one. The row of a thread
 * that has ended, or has not needed it for long, goes to the next thread that needs one.
 * The same is done for so many threads that moving one breakpoint in all of them takes
 * longer than a thread switch.
 */
#include "race/race_aim.h"

#include <errno.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/trap_path.h"
#include "event/aim.h"
#include "event/event.h"
#include "race/race_budget.h"
#include "race/race_fork.h"
#include "race/race_state.h"
#include "race/stall/race_stall.h"
#include "race/watch/race_watch.h"
#include "record/race_region.h"

#define PROBES 8u
#define STALE_NS 200000000u
#define MISSES_MAX 16u
#define MISSED_NS 1000000u
/* The thread that chose it has gone another way, most likely, and no other has come. */
#define SHARED_STALE_NS 150000u
#define SHARED_THREADS_MAX 64u

static uint32_t first_row(pid_t tid)
{
	return (uint32_t)tid * 2654435761u % RACE_AIM_ROWS;
}

TRAP_PATH static int take_row(struct race_aim *aim, pid_t tid, uint64_t now)
{
	uint32_t state = atomic_get(&aim->state);

	if (state == AIM_BUSY)
		return 0;
	if (aim->tid && aim->tid != tid && now - aim->set_ns < STALE_NS)
		return 0;
	return atomic_cas(&aim->state, &state, AIM_BUSY);
}

TRAP_PATH static struct race_aim *row_for(pid_t tid, uint64_t now)
{
	uint32_t at = first_row(tid);

	for (uint32_t n = 0; n < PROBES; n++) {
		struct race_aim *aim = &race.aims[(at + n) % RACE_AIM_ROWS];
		if (aim->tid == tid && take_row(aim, tid, now))
			return aim;
	}
	for (uint32_t n = 0; n < PROBES; n++) {
		struct race_aim *aim = &race.aims[(at + n) % RACE_AIM_ROWS];
		if (take_row(aim, tid, now))
			return aim;
	}
	return NULL;
}

TRAP_PATH static void note_switches(struct race_aim *aim)
{
	if (race_watch->is_of_threads)
		aim->switches = race_budget_switches();
}

TRAP_PATH static void pay_switches(const struct race_aim *aim)
{
	if (race_watch->is_of_threads)
		race_budget_spend(race_budget_switches_ns(aim->switches), 1);
}

TRAP_PATH static void put_away(struct race_aim *aim)
{
	race_watch->put_away(aim->event);
	pay_switches(aim);
	atomic_set(&aim->state, AIM_FREE);
}

TRAP_PATH static int has_shared(void)
{
	return atomic_get(&race.has_shared_aim) != 0;
}

static int is_put_away(struct race_aim *aim)
{
	uint32_t expected = AIM_SET;

	if (atomic_get(&aim->state) == AIM_FREE)
		return 1;
	if (!atomic_cas(&aim->state, &expected, AIM_BUSY))
		return 0;
	put_away(aim);
	return 1;
}

int race_aims_put_away(void)
{
	int are = is_put_away(&race.shared_aim);

	for (uint32_t i = 0; i < RACE_AIM_ROWS; i++)
		are &= is_put_away(&race.aims[i]);
	return are;
}

/* 1: it is given back, since a thread forks. */
TRAP_PATH static int gives_way(struct race_aim *aim)
{
	if (!race_is_forking())
		return 0;
	put_away(aim);
	return 1;
}

TRAP_PATH static void drop_if_missed(struct race_aim *aim, uint64_t now)
{
	uint32_t expected = AIM_SET;

	if (atomic_get(&aim->state) != AIM_SET || now - aim->set_ns < MISSED_NS ||
	    !atomic_cas(&aim->state, &expected, AIM_BUSY))
		return;
	race_count(RACE_AIMS_MISSED);
	aim->missed++;
	put_away(aim);
}

/*
 * One that is armed and not reached costs its thread at each switch, and it has gone another way
 * most likely. Many misses: perhaps the thread id was used again, and the event is a dead thread's.
 */
TRAP_PATH void race_aims_drop_missed(uint64_t now)
{
	if (has_shared() && race_watch->is_of_threads)
		return;
	for (uint32_t i = 0; i < RACE_AIM_ROWS; i++)
		drop_if_missed(&race.aims[i], now);
	drop_if_missed(&race.shared_aim, now);
}

/* With more threads than that, from now on each has its own: its register is free then. */
TRAP_PATH static void give_up_shared(void)
{
	struct race_aim *aim = &race.shared_aim;
	uint32_t state = atomic_get(&aim->state);

	if (state == AIM_BUSY || !atomic_cas(&aim->state, &state, AIM_BUSY))
		return;
	atomic_set(&race.has_shared_aim, 0u);
	event_let_go(aim->event);
}

/* is_birth: for a thread that the caller will create. */
TRAP_PATH static int aim_shared(uint64_t pc, int is_birth)
{
	struct race_aim *aim = &race.shared_aim;
	uint64_t now = clock_now_ns();
	uint32_t state = atomic_get(&aim->state);

	if (state == AIM_BUSY || (state == AIM_SET && now - aim->set_ns < SHARED_STALE_NS) ||
	    !atomic_cas(&aim->state, &state, AIM_BUSY))
		return -EBUSY;
	if (state == AIM_SET) {
		race_count(RACE_AIMS_MISSED);
		pay_switches(aim);
	}
	if (gives_way(aim))
		return -EBUSY;
	aim->set_ns = now;
	note_switches(aim);
	int err = race_watch->aim_all(aim->event, pc, is_birth);
	atomic_set(&aim->state, err ? AIM_FREE : AIM_SET);
	return err;
}

int race_aim_at_birth(uint64_t pc)
{
	return aim_shared(pc, 1);
}

TRAP_PATH int race_aim_at(pid_t tid, uint64_t pc)
{
	if (has_shared() && race_watch->is_of_threads &&
	    counter_get(&race.budget.threads) > SHARED_THREADS_MAX)
		give_up_shared();
	if (has_shared())
		return aim_shared(pc, 0);
	uint64_t now = clock_now_ns();
	struct race_aim *aim = row_for(tid, now);

	if (!aim || gives_way(aim))
		return -EBUSY;
	if (aim->tid != tid || aim->missed >= MISSES_MAX) {
		aim->missed = 0;
		event_let_go(aim->event);
		aim->tid = tid;
	}
	aim->set_ns = now;
	note_switches(aim);
	int err = event_aim_self(aim->event, pc);
	atomic_set(&aim->state, err ? AIM_FREE : AIM_SET);
	return err;
}

TRAP_PATH enum trapline_action race_on_aim(const struct trapline_hit *hit)
{
	struct race_aim *aim = hit->arg;
	uint32_t expected = AIM_SET;

	if ((aim->tid && aim->tid != hit->tid) || !atomic_cas(&aim->state, &expected, AIM_BUSY))
		return TRAPLINE_GO_ON;
	aim->missed = 0;
	put_away(aim);
	race_budget_spend(race.budget.trap_ns, 1);
	if (!hit->async)
		race_stall(hit, NULL, NULL);
	return TRAPLINE_GO_ON;
}
