/* SPDX-License-Identifier: MIT */
/* heap_budget.c - see heap_budget.h. */
#include "heap/heap_budget.h"

#include "base/atomic.h"
#include "base/clock.h"

#define PPM 1000000u
/* What takes longer was interrupted: other threads ran, and that is no cost. */
#define LONGEST_NS 100000u
#define BACKOFF_LEAST 8u
#define BACKOFF_MOST 1024u

static struct {
	uint64_t ppm;
	uint64_t allowance_ns;
	uint64_t spent_ns; /* by all threads of this process */
	uint64_t watches_ns;
	uint64_t before_ns; /* CPU time of the process until the start */
} budget;

void heap_budget_start(const struct heap_settings *settings)
{
	budget.ppm = settings->budget_ppm;
	budget.allowance_ns = settings->allowance_ns;
	budget.spent_ns = 0;
	budget.watches_ns = 0;
	budget.before_ns = 0;
	budget.before_ns = heap_budget_cpu_ns();
}

void heap_budget_forked(void)
{
	budget.spent_ns = 0;
	budget.watches_ns = 0;
	budget.allowance_ns = 0;
	budget.before_ns = 0;
}

uint64_t heap_budget_cpu_ns(void)
{
	struct timespec now = { 0, 0 };

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec - budget.before_ns;
}

static bool is_within(uint64_t spent)
{
	if (spent < budget.allowance_ns)
		return true;
	uint64_t whole = heap_budget_cpu_ns() / 1000 * budget.ppm / (PPM / 1000);
	uint64_t half = budget.allowance_ns + whole / 2;

	return spent < (whole > half ? whole : half);
}

bool heap_budget_affords_watches(void)
{
	return heap_region->settings.first ||
	       is_within(counter_get(&budget.spent_ns) + counter_get(&budget.watches_ns));
}

void heap_budget_add_watches(uint64_t ns)
{
	counter_add(&budget.watches_ns, ns);
	counter_add(&heap_region->counters[HEAP_COST_NS], ns);
}

bool heap_budget_affords(struct heap_thread *self)
{
	if (is_within(counter_get(&budget.spent_ns))) {
		self->backoff = 0;
		return true;
	}
	uint32_t next = self->backoff ? 2 * self->backoff : BACKOFF_LEAST;

	self->backoff = next < BACKOFF_MOST ? next : BACKOFF_MOST;
	self->skip = self->backoff;
	counter_add(&heap_region->counters[HEAP_LOST_BUDGET], 1u);
	return false;
}

uint64_t heap_budget_begin(void)
{
	return clock_now_ns();
}

void heap_budget_spend(uint64_t begun)
{
	uint64_t took = clock_now_ns() - begun;

	took = took < LONGEST_NS ? took : LONGEST_NS;
	counter_add(&budget.spent_ns, took);
	counter_add(&heap_region->counters[HEAP_COST_NS], took);
}
