/* SPDX-License-Identifier: MIT */
/*
 * race_budget.c - how much the search may cost, and how long each stall lasts.
 *
 * The budget is a share of the time that the process ran: wall time, or CPU time where
 * that is less, so that a server that sleeps pays little. Each stall is counted as if the
 * whole process had waited, as it does at a barrier, where all threads wait for the
 * stalled one. In a sweep a delay of one CPU counts by the number of CPUs in use. An
 * unspent budget is kept for a while, to pay for a long stall at a rare site.
 *
 * No floating point here: the code runs in a signal handler.
 */
#include "race/race_budget.h"

#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/sys.h"
#include "base/trap_path.h"
#include "event/control.h"
#include "race/race.h"
#include "race/race_birth.h"
#include "race/race_outside.h"
#include "race/race_state.h"
#include "race/race_strategy.h"
#include "record/race_region.h"

#define MILLION 1000000u
#define KEPT_NS 300000000u
#define SLACK_AT_START_NS 50000u
#define COST_AT_START_NS 60000u
#define SWITCH_EVERY_NS 500000000u
#define THREADS_EVERY_NS 20000000u
#define SLACK_MAX_NS 200000u
#define WAIT_MAX_NS 20000000u
#define SWITCH_PART 4u
/* To spend, before a clock that rested gives fast samples for a while. */
#define CLOCK_LEAST_NS 2000000u
/* This part of what is allowed is for sites that are trapped; the clock has the rest. */
#define SITES_PART 2u
#define SITES_OF 3u
#define SITES_KEPT_NS 20000000u
/*
 * What they may owe for code that is seldom reached; at first a part of the time that the program
 * ran.
 */
#define COLD_DEBT_NS 10000000u
#define COLD_DEBT_PART 50u

TRAP_PATH uint64_t race_process_cpu_ns(void)
{
	return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

TRAP_PATH uint64_t race_thread_cpu_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* The clock's number is that of clock_getcpuclockid(3): CPUCLOCK_PERTHREAD | CPUCLOCK_SCHED. */
uint64_t race_cpu_ns_of(pid_t tid)
{
	return clock_ns((clockid_t)(~(uint32_t)tid << 3 | 6));
}

void race_budget_start(void)
{
	struct race_budget *b = &race.budget;
	uint64_t trap_ns = b->trap_ns;

	memset(b, 0, sizeof(*b));
	b->trap_ns = trap_ns;
	b->started_wall_ns = clock_now_ns();
	b->started_cpu_ns = race_process_cpu_ns();
	b->slack_ns = SLACK_AT_START_NS;
	b->stall_cost_ns = COST_AT_START_NS;
	b->parallel_x16 = 16;
	b->switched_ns = b->started_wall_ns;
}

/* Mean of the last eight or so. Threads race here for a figure, and none is wrong by much. */
TRAP_PATH static void average(uint64_t *mean, uint64_t value)
{
	uint64_t old = counter_get(mean);

	__atomic_store_n(mean, old - old / 8 + value / 8, __ATOMIC_RELAXED);
}

TRAP_PATH void race_budget_spend(uint64_t ns, int is_in_thread)
{
	if (is_in_thread)
		counter_add(&race.budget.own_cpu_ns, ns);
	if (is_in_thread && race_strategy->weighs_threads)
		ns = ns * 16 / counter_get(&race.budget.parallel_x16);
	counter_add(&race.budget.spent_ns, ns);
	counter_add(&race.process->spent_ns, ns);
}

TRAP_PATH void race_budget_spend_on_sites(uint64_t ns)
{
	counter_add(&race.budget.sites_ns, ns);
	race_budget_spend(ns, 1);
}

TRAP_PATH uint64_t race_budget_switches(void)
{
	struct rusage usage = { .ru_nvcsw = 0 };

	sys2(SYS_getrusage, RUSAGE_SELF, &usage);
	return (uint64_t)usage.ru_nvcsw + (uint64_t)usage.ru_nivcsw;
}

/*
 * Below a hypervisor that leaves the machine, as a trap does: so the cost goes with that of a trap.
 */
TRAP_PATH uint64_t race_budget_switches_ns(uint64_t since)
{
	uint64_t now = race_budget_switches();

	return now > since ? (now - since) * (race.budget.trap_ns / SWITCH_PART) : 0;
}

/* Samples from outside that no thread got, too: they stop each CPU. */
TRAP_PATH static void pay_ticks(uint64_t run_ns)
{
	uint64_t paid = counter_get(&race.budget.ticks_ns);
	uint64_t all = run_ns / 1000 * race.region->settings.tick_ppm / 1000;

	if (race.flags & RACE_HAS_TICKS && all > paid &&
	    atomic_cas(&race.budget.ticks_ns, &paid, all))
		race_budget_spend(all - paid, 0);
}

/* What may still be spent; 0: nothing. */
TRAP_PATH static uint64_t credit(uint64_t now_ns)
{
	struct race_budget *b = &race.budget;
	uint64_t wall = now_ns - b->started_wall_ns;
	uint64_t cpu = race_process_cpu_ns() - b->started_cpu_ns;
	uint64_t run = race_strategy->earned_ns(wall, cpu, counter_get(&b->own_cpu_ns));
	uint64_t parallel = wall ? cpu * 16 / wall : 16;

	__atomic_store_n(&b->parallel_x16, parallel < 16 ? 16 : parallel, __ATOMIC_RELAXED);
	race.process->run_ns = run;
	pay_ticks(run);
	uint64_t allowed =
		race_strategy->allowed_ns + run / 1000 * race.region->settings.budget_ppm / 1000;
	atomic_set(&b->allowed_ns, allowed);
	uint64_t gone = counter_get(&b->spent_ns) + counter_get(&b->forgiven_ns);
	if (gone >= allowed)
		return 0;
	if (allowed - gone > KEPT_NS) {
		counter_add(&b->forgiven_ns, allowed - gone - KEPT_NS);
		return KEPT_NS;
	}
	return allowed - gone;
}

/*
 * The steady clock costs each thread at each switch. Where a thread of Trapline inspects the
 * budget, it rests while little may be spent.
 */
TRAP_PATH static void set_timers(uint32_t timer)
{
	atomic_set(&race.budget.timer, timer);
	for (uint32_t i = 0; i < RACE_TIMERS; i++) {
		int rests = i == 1 && atomic_get(&race.budget.is_looked_at);

		atomic_set(&race.timers[i]->wanted, (uint32_t)(i == timer && !rests));
		event_sync(race.timers[i]);
	}
}

/* Fast samples while there is plenty to spend: they find what only a short program does. */
TRAP_PATH static void choose_timer(uint64_t now_ns, uint64_t left_ns)
{
	struct race_budget *b = &race.budget;
	uint64_t switched = counter_get(&b->switched_ns);
	uint32_t timer = left_ns > 5 * (b->stall_cost_ns + RACE_DELAY_HOT_NS) ? 0 : 1;

	if (timer == b->timer || !race.timers[1])
		return;
	if (timer == 0 && (now_ns - switched < SWITCH_EVERY_NS || left_ns < KEPT_NS / 2))
		return;
	if (!atomic_cas(&b->switched_ns, &switched, now_ns))
		return;
	set_timers(timer);
}

void race_budget_look(uint64_t now_ns, int is_last)
{
	struct race_budget *b = &race.budget;

	if (!race.timers[1])
		return;
	atomic_set(&b->is_looked_at, (uint32_t)!is_last);
	if (is_last || (atomic_get(&b->timer) == 1 && race_budget_left(now_ns) > CLOCK_LEAST_NS)) {
		atomic_set(&b->switched_ns, now_ns);
		set_timers(0);
	}
}

/* After credit(). What they do not use for long is the clock's. */
TRAP_PATH static int64_t sites_left(void)
{
	struct race_budget *b = &race.budget;
	uint64_t share = counter_get(&b->allowed_ns) * SITES_PART / SITES_OF;
	int64_t left = (int64_t)(share - counter_get(&b->sites_ns));

	if (left <= (int64_t)SITES_KEPT_NS)
		return left;
	counter_add(&b->sites_ns, (uint64_t)left - SITES_KEPT_NS);
	return SITES_KEPT_NS;
}

TRAP_PATH int64_t race_budget_sites_left(uint64_t now_ns)
{
	credit(now_ns);
	return sites_left();
}

TRAP_PATH int race_budget_allows_cold(uint64_t now_ns)
{
	uint64_t debt = (now_ns - race.budget.started_wall_ns) / COLD_DEBT_PART;

	debt = debt < COLD_DEBT_NS ? debt : COLD_DEBT_NS;
	return race_budget_sites_left(now_ns) + (int64_t)debt > 0;
}

/* The share of the clock, where sites are multiplexed. */
TRAP_PATH uint64_t race_budget_left(uint64_t now_ns)
{
	uint64_t left = credit(now_ns);

	if (race_strategy->is_free)
		return KEPT_NS;
	if (race_strategy->rotates && (atomic_get(&race.keeper) || race.turn.event)) {
		int64_t reserved = sites_left();

		if (reserved > 0)
			left = left > (uint64_t)reserved ? left - (uint64_t)reserved : 0;
	}
	return left;
}

TRAP_PATH uint64_t race_budget_wait_ns(uint64_t now_ns)
{
	uint64_t needed = RACE_DELAY_MIN_NS + counter_get(&race.budget.stall_cost_ns);
	uint64_t left = race_budget_left(now_ns);
	const struct race_settings *set = &race.region->settings;
	uint64_t ppm = set->budget_ppm > set->tick_ppm ? set->budget_ppm - set->tick_ppm : 0;

	if (left > needed)
		return 0;
	uint64_t wait = ppm ? (needed - left) * MILLION / ppm : WAIT_MAX_NS;
	return wait < WAIT_MAX_NS ? wait : WAIT_MAX_NS;
}

TRAP_PATH int race_budget_allows(uint64_t now_ns)
{
	uint64_t left = race_budget_left(now_ns);

	choose_timer(now_ns, left);
	return left > RACE_DELAY_MIN_NS + counter_get(&race.budget.stall_cost_ns);
}

TRAP_PATH uint64_t race_others_cpu_ns(uint64_t since_ns, uint64_t own_ns)
{
	uint64_t others_ns = race_strategy->extra_ns ? race_process_cpu_ns() - since_ns : 0;

	return others_ns > own_ns ? others_ns - own_ns : 0;
}

/*
 * Threads that are stalled at the same time cost the program that time once. A thread can leave its
 * stall by siglongjmp, and is counted for ever then: each stall pays for its own time, as if it
 * were alone.
 */
TRAP_PATH void race_budget_stall_begins(uint64_t now_ns)
{
	struct race_budget *b = &race.budget;

	if (counter_add(&b->stalls_now, 1u) == 0)
		atomic_set(&b->stalls_paid_ns, now_ns);
}

TRAP_PATH uint64_t race_budget_stall_ends(uint64_t now_ns)
{
	struct race_budget *b = &race.budget;
	uint64_t paid = atomic_swap(&b->stalls_paid_ns, now_ns);

	counter_add(&b->stalls_now, (uint32_t)-1);
	return now_ns > paid ? now_ns - paid : 0;
}

/*
 * A thread whose stall is over may wait long for a CPU on a busy machine: others run then, which is
 * not a loss. So the time of its stall counts as it was asked for, and the rest in CPU time.
 */
TRAP_PATH void race_budget_stalled(const struct race_stall_cost *cost)
{
	struct race_budget *b = &race.budget;
	uint64_t asked_ns = cost->asked_ns;
	uint64_t waited_ns = cost->waited_ns;
	uint64_t cpu_ns = cost->cpu_ns;
	uint64_t stalled_ns = waited_ns < asked_ns + SLACK_MAX_NS ? waited_ns :
								    asked_ns + SLACK_MAX_NS;
	uint64_t slack = counter_get(&b->slack_ns);
	uint64_t paid_ns = stalled_ns < cost->alone_ns ? stalled_ns : cost->alone_ns;
	uint64_t extra_ns =
		race_strategy->extra_ns ? race_strategy->extra_ns(stalled_ns, cost->others_ns) : 0;

	if (waited_ns + 20000 > asked_ns) {
		/* Woken by the clock, not by a second thread. */
		uint64_t late = waited_ns + slack > asked_ns ? waited_ns + slack - asked_ns : 0;
		average(&b->slack_ns, late < SLACK_MAX_NS ? late : SLACK_MAX_NS);
	}
	if (waited_ns)
		average(&b->stall_cost_ns, cpu_ns + 2 * b->trap_ns);
	counter_add(&b->own_cpu_ns, cpu_ns);
	race_budget_spend(paid_ns + cpu_ns + extra_ns, 0);
	if (cost->is_trapped)
		counter_add(&b->sites_ns, paid_ns + cpu_ns + extra_ns);
	counter_add(&race.process->stalled_ns, stalled_ns);
	race_gate_set(clock_now_ns());
}

TRAP_PATH uint64_t race_delay_ns(const struct race_site *site, const struct race_spot *spot,
				 uint64_t now_ns)
{
	uint64_t fixed = race.region->settings.delay_ns;

	return fixed ? fixed : race_strategy->delay_ns(site, spot, now_ns);
}

/*
 * A thread that was alone is so no longer when another was created: that one may end in a fraction
 * of a millisecond.
 */
TRAP_PATH static int is_count_fresh(uint64_t now_ns, uint64_t births)
{
	const struct race_budget *b = &race.budget;
	uint64_t asked = counter_get(&b->threads_at_ns);

	if (!asked)
		return 0;
	if (counter_get(&b->threads) == 1)
		return now_ns - asked < THREADS_EVERY_NS / 20 &&
		       counter_get(&b->threads_births) == births;
	return now_ns - asked < THREADS_EVERY_NS;
}

/* By the links of /proc/self/task. */
TRAP_PATH uint32_t race_count_threads(void)
{
	struct stat st;

	if (sys4(SYS_newfstatat, AT_FDCWD, "/proc/self/task", &st, 0))
		return 0;
	uint32_t others = 2 + counter_get(&race.budget.own_threads);

	return st.st_nlink > others ? (uint32_t)(st.st_nlink - others) : 1;
}

/* Asked seldom: one call to the kernel. */
TRAP_PATH int race_is_alone(uint64_t now_ns)
{
	struct race_budget *b = &race.budget;
	uint64_t births = atomic_get(&race_births.begun);

	if (is_count_fresh(now_ns, births))
		return counter_get(&b->threads) == 1;
	atomic_set(&b->threads_births, births);
	atomic_set(&b->threads_at_ns, now_ns);
	uint32_t threads = race_count_threads();
	if (!threads)
		return 0;
	atomic_set(&b->threads, threads);
	if (threads > race.process->most_threads)
		race.process->most_threads = threads;
	return threads == 1;
}
