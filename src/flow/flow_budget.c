/* SPDX-License-Identifier: MIT */
/* flow_budget.c - see flow_budget.h. */
#include "base/general_regs.h"

#include "flow/flow_budget.h"

#include <pthread.h>
#include <time.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "flow/flow_jumps.h"
#include "flow/flow_state.h"
#include "guest/own_thread.h"

#define ENOUGH_NS 1000000 /* of the budget, for the traps to come back */

static uint64_t own_spent; /* what the allowance, which is of the run, did not pay */
static int is_child;

static uint64_t allowance_left(void)
{
	const uint64_t *c = flow_region->counters;
	const uint64_t all = counter_get(&c[FLOW_WINDOW_NS]) + counter_get(&c[FLOW_TRAP_NS]);
	const uint64_t allowance = flow_region->settings.allowance_ns;

	return all < allowance ? allowance - all : 0;
}

void flow_spend(enum flow_counter counter, uint64_t ns)
{
	const uint64_t paid = allowance_left();

	if (ns > paid)
		counter_add(&own_spent, ns - paid);
	flow_count(counter, ns);
}

int64_t flow_budget_left(void)
{
	const struct flow_settings *set = &flow_region->settings;

	if (set->budget_ppm >= 1000000)
		return INT64_MAX;
	return (int64_t)(allowance_left() +
			 clock_ns(CLOCK_PROCESS_CPUTIME_ID) / 1000000 * set->budget_ppm) -
	       (int64_t)counter_get(&own_spent);
}

/* Its clock begins at 0. */
static void budget_forked(void)
{
	own_spent = 0;
	is_child = 1;
}

void flow_budget_start(void)
{
	pthread_atfork(NULL, NULL, budget_forked);
}

void flow_budget_trap(void)
{
	static uint32_t is_resting;

	if (!is_child || flow_budget_left() > 0 || atomic_swap(&is_resting, 1u))
		return;
	flow_jumps_rest();
	flow_count(FLOW_RESTED, 1);
}

/* Traps cost, too: they rest until a part of the budget is there again. */
void flow_budget_tick(uint64_t passed_ns)
{
	static int is_off;
	const int64_t left = flow_budget_left();

	if (is_off)
		flow_count(FLOW_OFF_NS, passed_ns);
	if (is_off ? left <= ENOUGH_NS : left > 0)
		return;
	own_thread_opens();
	is_off = flow_jumps_switch(is_off) ? is_off : !is_off;
	own_thread_shuts();
}
