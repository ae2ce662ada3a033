/* SPDX-License-Identifier: MIT */
/*
 * race_strategy.c - the four ways to search: by samples, in a sweep, in a run of a sweep for some
 * of its sites, and to show a race again.
 */
#include "race/race_strategy.h"

#include "base/atomic.h"
#include "base/trap_path.h"
#include "race/race_budget.h"
#include "race/race_state.h"
#include "race/sweep/race_sites.h"
#include "record/race_region.h"

#define ALLOWED_AT_START_NS 5000000u
#define ALLOWED_IN_SWEEP_NS 100000000u
#define ASLEEP_PART 8u
#define RARE_NS 2000000000u
#define RARE_IN_SWEEP_NS 100000000u
#define STALLS_UNKNOWN 16u
#define STOPPED_NS 1000000u
#define COLD_NS 2000000u
#define REPLAY_NS 500000u
#define REPLAY_DOUBLINGS 9u
#define FOCUS_DOUBLINGS 9u
/* Slices; there the other side may be asleep most of the time. */
#define PATIENCE_IN_REPLAY 100u
#define PATIENCE_BY_CHANCE 6u

/* Nothing is known of a site that has no row, because the table is full. */
TRAP_PATH static uint32_t stalls_of(const struct race_site *site)
{
	return site ? counter_get(&site->stalls) : STALLS_UNKNOWN;
}

TRAP_PATH static int is_rare(const struct race_site *site, uint64_t now_ns, uint64_t rare_ns)
{
	return site && counter_get(&site->stalls) && now_ns - counter_get(&site->last_ns) > rare_ns;
}

TRAP_PATH static uint64_t draw_ns(void)
{
	return RACE_DELAY_HOT_NS + race_random() % RACE_DELAY_HOT_NS;
}

TRAP_PATH static uint64_t clamp(uint64_t value, uint64_t least, uint64_t most)
{
	value = value > most ? most : value;
	return value < least ? least : value;
}

/* ---- by samples ---- */

/*
 * At a trap. A thread is stalled long in code that was not reached for long: that is seldom paid. A
 * busy site has as many stalls as another, so a shorter time does.
 */
TRAP_PATH static uint64_t trapped_delay_ns(const struct race_site *site,
					   const struct race_spot *spot, uint64_t now_ns)
{
	int64_t left = race_budget_sites_left(now_ns);
	int is_cold = race_spot_is_cold(spot, now_ns);
	uint64_t most = left > 0 ? (uint64_t)left / 3 : 0;
	uint32_t doublings = is_cold ? 6 : stalls_of(site) < 4 ? 5 : 3;
	uint64_t least = is_cold ? COLD_NS : RACE_DELAY_MIN_NS;

	return clamp(draw_ns() << race_random() % (doublings + 1), RACE_DELAY_MIN_NS,
		     most > least ? most : least);
}

/*
 * Long where the site had few stalls, or is seldom reached: that is paid once. The length is drawn
 * so that each power of two is as likely, since it is not known how often the others come.
 */
TRAP_PATH static uint64_t sample_delay_ns(const struct race_site *site,
					  const struct race_spot *spot, uint64_t now_ns)
{
	uint32_t stalls = stalls_of(site);
	uint32_t doublings = stalls == 0 ? 8 : stalls < 4 ? 6 : stalls < 16 ? 3 : 0;
	uint64_t least = 2 * race.budget.stall_cost_ns;

	if (spot)
		return trapped_delay_ns(site, spot, now_ns);
	if (stalls < 256 && is_rare(site, now_ns, RARE_NS))
		doublings += 4;
	uint64_t delay = draw_ns();
	delay <<= race_random() % (doublings + 1);
	/* With many threads arming takes long: the stall must be worth it. */
	return clamp(delay, least < RACE_DELAY_MIN_NS ? RACE_DELAY_MIN_NS : least,
		     race_budget_left(now_ns) / 8);
}

TRAP_PATH static uint32_t no_patience(void)
{
	return 1;
}

TRAP_PATH static uint64_t time_of_program(uint64_t wall_ns, uint64_t cpu_ns, uint64_t own_ns)
{
	return wall_ns < cpu_ns ? wall_ns : cpu_ns;
}

/*
 * A thread wakes up late. And the others waited for the stalled one: more than half of the CPUs
 * that the program uses were still. Then the scheduler distributes all threads again, and it takes
 * it some 10 ms to share the CPUs out evenly. 1 to 2 ms were lost by that in a program of eight
 * threads on two CPUs.
 */
TRAP_PATH static uint64_t cost_of_others(uint64_t stalled_ns, uint64_t others_ns)
{
	uint64_t parallel = counter_get(&race.budget.parallel_x16);
	int have_stopped = parallel > 24 && others_ns * 32 < stalled_ns * parallel;

	return counter_get(&race.budget.slack_ns) + (have_stopped ? STOPPED_NS : 0);
}

static const struct race_strategy by_samples = {
	.delay_ns = sample_delay_ns,
	.patience = no_patience,
	.earned_ns = time_of_program,
	.extra_ns = cost_of_others,
	.allowed_ns = ALLOWED_AT_START_NS,
	.skips_one_in = 4,
	.rotates = 1,
	.samples_births = 1,
};

/* ---- a sweep ---- */

/*
 * In a sweep each site has as many stalls as another, so that long stalls are paid by few sites.
 * Where threads come seldom it may take long until another one does.
 */
TRAP_PATH static uint64_t sweep_delay_ns(const struct race_site *site, const struct race_spot *spot,
					 uint64_t now_ns)
{
	uint32_t stalls = stalls_of(site);
	int is_aimed = spot && spot->meets;
	uint32_t doublings = stalls < 4 ? 9 : stalls < 32 || is_aimed ? 7 : 4;

	if (is_rare(site, now_ns, RARE_IN_SWEEP_NS))
		doublings = 11;
	uint64_t delay = draw_ns();
	uint64_t doubled = race_random() % (doublings + 1);
	/* Long ones are expensive: the same time pays for many short ones. */
	if (doublings < 11 && doubled > race_random() % (doublings + 1))
		doubled /= 2;
	return clamp(delay << doubled, RACE_DELAY_MIN_NS, race_budget_left(now_ns) / 4);
}

/*
 * If all were stalled, the first to come would always be the first to continue, and all would
 * continue in step. Then an access behind many others of its thread never met one that comes soon.
 */
TRAP_PATH static uint32_t patience_by_chance(void)
{
	return race_random() % 4 == 0 ? PATIENCE_BY_CHANCE : 1;
}

/*
 * Stalls must not earn more stalls: what the program did counts, however long it took, and a little
 * for those that mostly sleep.
 */
TRAP_PATH static uint64_t work_of_program(uint64_t wall_ns, uint64_t cpu_ns, uint64_t own_ns)
{
	return wall_ns / ASLEEP_PART + cpu_ns - (own_ns < cpu_ns ? own_ns : cpu_ns);
}

static const struct race_strategy by_sites = {
	.delay_ns = sweep_delay_ns,
	.patience = patience_by_chance,
	.earned_ns = work_of_program,
	.allowed_ns = ALLOWED_IN_SWEEP_NS,
	.outwait_one_in = 2,
	.outwait_again = 8, /* the others first */
	.skips_one_in = 4,
	.is_of_sites = 1,
	.weighs_threads = 1,
	.stalls_several = 1,
};

/* ---- one run of a sweep, for some of the sites that were stalled before ---- */

/* Few are stalled, and the others come as fast as they can. */
TRAP_PATH static uint64_t subset_delay_ns(const struct race_site *site,
					  const struct race_spot *spot, uint64_t now_ns)
{
	uint64_t delay = draw_ns();

	return delay << race_random() % FOCUS_DOUBLINGS;
}

static const struct race_strategy by_subset = {
	.delay_ns = subset_delay_ns,
	.patience = patience_by_chance,
	.earned_ns = work_of_program,
	.allowed_ns = ALLOWED_IN_SWEEP_NS,
	.outwait_one_in = 1,
	.outwait_again = 1,
	.skips_one_in = 2,
	.is_of_sites = 1,
	.is_for_some = 1,
	.weighs_threads = 1,
};

/* ---- a replay: two locations are stalled to show a race, so the cost does not matter ---- */

/* Both short and long: who is held may have a lock that the other one is waiting for. */
TRAP_PATH static uint64_t replay_delay_ns(const struct race_site *site,
					  const struct race_spot *spot, uint64_t now_ns)
{
	uint64_t delay = REPLAY_NS + race_random() % REPLAY_NS;

	return delay << race_random() % REPLAY_DOUBLINGS;
}

TRAP_PATH static uint32_t patience_in_replay(void)
{
	return PATIENCE_IN_REPLAY;
}

static const struct race_strategy by_replay = {
	.delay_ns = replay_delay_ns,
	.patience = patience_in_replay,
	.outwait_one_in = 2, /* a failure may need a stall that outlasts a sleep */
	.outwait_again = 2,
	.earned_ns = work_of_program,
	.allowed_ns = ALLOWED_IN_SWEEP_NS,
	.skips_one_in = 4,
	.is_free = 1,
	.is_of_sites = 1,
	.is_for_some = 1,
	.weighs_threads = 1,
	.stalls_several = 1,
};

const struct race_strategy *race_strategy = &by_samples;

void race_strategy_choose(const struct race_region *region)
{
	const struct race_settings *set = &region->settings;
	const struct race_strategy *of_sweep = set->range_count			? &by_replay :
					       atomic_get(&region->focus_count) ? &by_subset :
										  &by_sites;

	race_strategy = set->is_sweep ? of_sweep : &by_samples;
}
