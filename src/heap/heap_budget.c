/* SPDX-License-Identifier: MIT */
/* heap_budget.c - see heap_budget.h. */
#include "heap/heap_budget.h"

#include "base/atomic.h"
#include "base/clock.h"

#define PPM 1000000u
/* What takes longer was interrupted: other threads ran, and that is no cost. */
#define LONGEST_NS 100000u
#define SUSPECT_NS 30000u
#define LONGEST_MOVE_NS 1000000u /* in all threads */
#define BACKOFF_LEAST 8u
#define BACKOFF_MOST 1024u
#define WATCHES_PARTS 2u
#define LEAST_PARTS 2u
#define ALLOWED_PROCESSES 10u
#define ALLOWANCE_PARTS 10u /* of it for each further one */
/* Measured: what a pair of malloc() and free() costs more that is not sampled. */
#define CALL_NS 6u

static struct {
	uint64_t ppm;
	uint64_t allowance_ns;
	uint64_t samples_ns; /* by all threads of this process */
	uint64_t watches_ns;
	uint64_t calls_ns;
	uint64_t before_ns; /* CPU time of the process until the start */
} budget;

/* A script of many short programs would pay with allowances alone. */
static uint64_t allowance_in(const struct heap_region *region)
{
	const uint64_t whole_ns = region->settings.allowance_ns;
	const uint64_t processes = counter_get(&region->counters[HEAP_PROCESSES]);

	return processes < ALLOWED_PROCESSES ? whole_ns : whole_ns / ALLOWANCE_PARTS;
}

void heap_budget_start(const struct heap_region *region)
{
	budget.ppm = region->settings.budget_ppm;
	budget.allowance_ns = allowance_in(region);
	budget.samples_ns = 0;
	budget.watches_ns = 0;
	budget.calls_ns = 0;
	budget.before_ns = 0;
	budget.before_ns = heap_budget_cpu_ns();
}

void heap_budget_forked(void)
{
	budget.samples_ns = 0;
	budget.watches_ns = 0;
	budget.calls_ns = 0;
	budget.allowance_ns = 0;
	budget.before_ns = 0;
}

uint64_t heap_budget_cpu_ns(void)
{
	return clock_ns(CLOCK_PROCESS_CPUTIME_ID) - budget.before_ns;
}

static uint64_t limit_now(void)
{
	uint64_t whole = heap_budget_cpu_ns() / 1000 * budget.ppm / (PPM / 1000);
	uint64_t half = budget.allowance_ns + whole / 2;

	return whole > half ? whole : half;
}

/* The clock is read only when the allowance is used up. */
static bool is_within(uint64_t spent, uint64_t part, uint32_t parts)
{
	uint64_t limit = budget.allowance_ns;

	if (spent < limit && part < limit / parts)
		return true;
	limit = limit_now();
	return spent < limit && part < limit / parts;
}

static uint64_t spent_ns(void)
{
	return counter_get(&budget.samples_ns) + counter_get(&budget.watches_ns) +
	       counter_get(&budget.calls_ns);
}

/* A part of it, so that registers that watch for long do not end the sampling. */
bool heap_budget_affords_watches(void)
{
	return heap_region->settings.first ||
	       is_within(spent_ns(), counter_get(&budget.watches_ns), WATCHES_PARTS);
}

static void add(uint64_t *to, uint64_t ns)
{
	counter_add(to, ns);
	counter_add(&heap_region->counters[HEAP_COST_NS], ns);
}

void heap_budget_add_watches(uint64_t ns)
{
	add(&budget.watches_ns, ns);
}

void heap_budget_add_calls(uint32_t calls)
{
	add(&budget.calls_ns, (uint64_t)calls * CALL_NS);
}

/* Calls and registers leave a part to samples in any case: a child that lives for a moment has little. */
static bool affords_sample(void)
{
	uint64_t samples = counter_get(&budget.samples_ns);

	return is_within(spent_ns(), samples, 1) || samples < limit_now() / LEAST_PARTS;
}

bool heap_budget_affords(struct heap_thread *self)
{
	if (affords_sample()) {
		self->backoff = 0;
		return true;
	}
	uint32_t next = self->backoff ? 2 * self->backoff : BACKOFF_LEAST;

	self->backoff = next < BACKOFF_MOST ? next : BACKOFF_MOST;
	self->skip = self->backoff;
	counter_add(&heap_region->counters[HEAP_LOST_BUDGET], 1u);
	return false;
}

/*
 * The clock of the thread steps by the tick on some machines, so it decides only where a sample took so long that
 * another thread has probably run in between. On a busy machine those would use up the allowance.
 */
static uint64_t without_others(uint64_t took_ns)
{
	if (took_ns < SUSPECT_NS)
		return took_ns;
	uint64_t cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - heap_self.cpu_ns;
	return cpu_ns < SUSPECT_NS ? SUSPECT_NS : cpu_ns < took_ns ? cpu_ns : took_ns;
}

uint64_t heap_budget_begin(void)
{
	heap_self.aside_ns = 0;
	heap_self.cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	return clock_now_ns();
}

void heap_budget_spend(uint64_t begun)
{
	uint64_t took = clock_now_ns() - begun;
	uint64_t aside = heap_self.aside_ns;

	took = without_others(took < aside ? 0 : took - aside);
	heap_self.aside_ns = 0;
	add(&budget.samples_ns, took < LONGEST_NS ? took : LONGEST_NS);
}

void heap_budget_spend_aside(uint64_t begun)
{
	uint64_t took = clock_now_ns() - begun;

	heap_self.aside_ns += took;
	took = without_others(took);
	add(&budget.watches_ns, took < LONGEST_MOVE_NS ? took : LONGEST_MOVE_NS);
}

uint64_t heap_budget_begin_long(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

void heap_budget_spend_long(uint64_t begun)
{
	add(&budget.samples_ns, clock_ns(CLOCK_THREAD_CPUTIME_ID) - begun);
}
