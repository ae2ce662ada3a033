/* SPDX-License-Identifier: MIT */
/*
 * race_turn.c - code is multiplexed by a breakpoint, where no int3 is put into text.
 *
 * A process that was attached to may block SIGTRAP in any of its threads, and the agent does not
 * know. An int3 would kill it there, a breakpoint is only late. So code by chance gets a breakpoint
 * in all threads, code without a stall first. The first thread that comes there is stalled, however
 * seldom it runs; if none comes in time, other code has its turn.
 *
 * The breakpoint is an event of the threads even where the watches are those of the CPUs. Other
 * processes may run hot code at the same address, and it stays for long.
 */
#include "race/race_turn.h"

#include <errno.h>

#include "base/atomic.h"
#include "base/tasks.h"
#include "base/trap_path.h"
#include "event/aim.h"
#include "event/event.h"
#include "race/race_budget.h"
#include "race/race_fork.h"
#include "race/race_modules.h"
#include "race/race_state.h"
#include "race/race_strategy.h"
#include "race/race_walk.h"
#include "race/stall/race_stall.h"
#include "race/sweep/race_sites.h"
#include "race/watch/race_watch.h"
#include "record/race_region.h"

#define TURN_NS 20000000u
/* With more it takes too long to open it in all of them. */
#define THREADS_MOST RACE_AGAIN_THREADS
#define OTHERS_ONE_IN 4u
#define DEPTH_MAX 8u
#define COLD_NS 5000000u /* threads did not reach it for so long */
#define DEAR_NS 100000u	 /* switches of threads cost so much: it is taken away early */
#define PLACES (4u * RACE_SLOTS)

static struct task_names names; /* names of the thread that has made the turn AIM_BUSY */
/* The locations of stalled threads, as a trap has them; more than can be stalled at once. */
static struct race_spot places[PLACES];

TRAP_PATH static int is_kept_open(void)
{
	return !race_watch_opens_some();
}

TRAP_PATH static void turn_rest(struct race_aim *turn)
{
	event_rest(turn->event);
	if (!is_kept_open())
		event_let_go(turn->event);
	race_budget_spend_on_sites(race_budget_switches_ns(turn->switches));
	atomic_set(&turn->state, AIM_FREE);
}

TRAP_PATH static int is_paid(int is_cold, uint64_t now_ns)
{
	int64_t needed = (int64_t)(RACE_DELAY_MIN_NS + counter_get(&race.budget.stall_cost_ns));

	return is_cold ? race_budget_allows_cold(now_ns) : race_budget_sites_left(now_ns) > needed;
}

TRAP_PATH enum trapline_action race_on_turn(const struct trapline_hit *hit)
{
	struct race_aim *turn = hit->arg;
	uint32_t expected = AIM_SET;

	if (!atomic_cas(&turn->state, &expected, AIM_BUSY))
		return TRAPLINE_GO_ON;
	int is_cold = hit->time_ns - turn->set_ns > COLD_NS;
	struct race_spot *spot = &places[turn->missed++ % PLACES];

	*spot = (struct race_spot){ .address = hit->ip,
				    .armed_ns = is_cold ? 0 : hit->time_ns,
				    .wanted = UINT32_MAX };
	turn_rest(turn);
	race_budget_spend_on_sites(race.budget.trap_ns);
	if (!hit->async && !race_is_stopped() && is_paid(is_cold, hit->time_ns))
		race_stall(hit, NULL, spot);
	return TRAPLINE_GO_ON;
}

/* From a function by chance, of the program more often than of where the thread is, some way on. */
TRAP_PATH static int turn_choose(uint64_t ip, uint64_t *pc)
{
	const struct race_module *module;

	if (race_random() % OTHERS_ONE_IN || race_policy_of(ip, &module) != RACE_CODE_INCLUDED)
		module = race.program;
	int err = race_walk_in(module, pc);

	for (uint32_t n = race_random() % DEPTH_MAX; !err && n; n--)
		race_walk_from(*pc, pc);
	return err;
}

TRAP_PATH static int turn_aim(struct trapline_event *ev, uint64_t pc)
{
	if (is_kept_open())
		return event_aim(ev, pc, sizeof(long), TRAPLINE_EXECUTE);
	return event_aim_again(ev, pc, sizeof(long), TRAPLINE_EXECUTE, &names);
}

TRAP_PATH static int is_due(struct race_aim *turn, uint64_t now_ns)
{
	uint32_t state = atomic_get(&turn->state);

	if (state == AIM_BUSY ||
	    (state == AIM_SET && now_ns - turn->set_ns < TURN_NS &&
	     race_budget_switches_ns(turn->switches) < DEAR_NS) ||
	    !atomic_cas(&turn->state, &state, AIM_BUSY))
		return 0;
	if (state == AIM_SET) {
		race_count(RACE_AIMS_MISSED);
		turn_rest(turn);
		state = AIM_FREE;
		return atomic_cas(&turn->state, &state, AIM_BUSY);
	}
	return 1;
}

TRAP_PATH void race_turn_take(uint64_t ip, uint64_t now_ns)
{
	struct race_aim *turn = &race.turn;
	uint64_t pc;

	if (!turn->event || race_is_alone(now_ns) || !is_paid(0, now_ns) ||
	    counter_get(&race.budget.threads) > THREADS_MOST || !is_due(turn, now_ns))
		return;
	int err = atomic_get(&race_forking) ? -EBUSY : turn_choose(ip, &pc);
	if (!err) {
		turn->set_ns = now_ns;
		turn->switches = race_budget_switches();
		err = turn_aim(turn->event, pc);
		race_count(err ? RACE_AIMS_REFUSED : RACE_AIMS);
	}
	atomic_set(&turn->state, err ? AIM_FREE : AIM_SET);
}

int race_turn_put_away(void)
{
	struct race_aim *turn = &race.turn;
	uint32_t state = AIM_SET;

	if (!turn->event || is_kept_open() || atomic_get(&turn->state) == AIM_FREE)
		return 1;
	if (!atomic_cas(&turn->state, &state, AIM_BUSY))
		return 0;
	turn_rest(turn);
	return 1;
}
