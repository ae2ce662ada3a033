/* SPDX-License-Identifier: MIT */
/*
 * heap_budget.c - see heap_budget.h.
 *
 * Threads may use the accounts of a run before for a while: their memory stays.
 */
#include "heap/heap_budget.h"

#include "base/after_fork.h"
#include "base/atomic.h"
#include "base/clock.h"
#include "heap/heap_draw.h"
#include "heap/heap_family.h"
#include "heap/heap_pool.h"

#define PPM 1000000u
/* What takes longer was interrupted: other threads ran, and that is not a cost. */
#define LONGEST_NS 100000u
#define SUSPECT_NS 30000u
#define LONGEST_MOVE_NS 1000000u /* in all threads */
#define REFUSED_NS 4000000u	 /* so long it is not asked again */
#define RESERVE_NS 5000000u	 /* that contexts have, and nothing else takes */
#define YOUNG_NS 50000000u
#define WATCHES_PARTS 2u
/* of the share, no matter what calls and registers cost: for contexts */
#define LEAST_PARTS 4u
#define LEAST_PARTS_OF_ALL 2u /* and for all blocks alike */
#define ALLOWED_PROCESSES 10u
#define ALLOWANCE_PARTS 10u /* of it for each further one */
/* Measured: what a pair of malloc() and free() costs more, where no context is looked up. */
#define CALL_NS 3u
/* A part of the time of a sample, which the program loses after it: its caches have other data. */
#define AFTER_PARTS 2u
/*
 * Measured: what a child costs, for one part of its parent's fork. It copies pages that it writes,
 * and the kernel removes its mappings.
 */
#define FORK_TIMES 2u
#define ASK_NS 8u	 /* until it is measured */
#define ASK_MOST_NS 400u /* what took longer was interrupted */
#define ASK_MEAN 64u
#define CLOCK_TRIES 16u

struct accounts {
	uint64_t spent_ns[HEAP_ACCOUNTS];
	uint64_t watches_ns;
	uint64_t calls;
	uint64_t calls_ns; /* for them */
	uint64_t asked_ns; /* ... of it to look up contexts */
	uint64_t cpu_ns;
	uint64_t closed_until_ns; /* contexts: by the coarse clock */
	uint64_t ask_ns;	  /* of one, times ASK_MEAN */
};

_Static_assert(sizeof(struct accounts) <= HEAP_FAMILY_DRAW - HEAP_FAMILY_BUDGET, "it has room");

static struct accounts *accounts;
static AFTER_FORK struct {
	uint64_t ppm;
	uint64_t allowance_ns;
	uint64_t start_ns; /* that the start cost, and samples do without */
	uint64_t started_ns;
	uint64_t before_ns; /* CPU time of the process until the start */
	uint64_t told_ns;   /* of its CPU time from then on, what the accounts have */
	uint64_t clock_ns;  /* between two readings of the clock, one after the other */
} budget;

/* A script of many short programs would pay with allowances alone. */
static uint64_t allowance_in(const struct heap_region *region)
{
	const uint64_t whole_ns = region->settings.allowance_ns;
	const uint64_t processes = counter_get(&region->counters[HEAP_PROCESSES]);

	return processes < ALLOWED_PROCESSES ? whole_ns : whole_ns / ALLOWANCE_PARTS;
}

static uint64_t cpu_of_process(void)
{
	uint64_t ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);

	/* A child by vfork() has Trapline's memory, and a clock of its own. */
	return ns > budget.before_ns ? ns - budget.before_ns : 0;
}

static uint64_t time_of_clock(void)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t n = 0; n < CLOCK_TRIES; n++) {
		uint64_t begun = clock_now_ns();
		uint64_t took = clock_now_ns() - begun;

		least = took < least ? took : least;
	}
	return least;
}

void heap_budget_start(const struct heap_region *region, void *family)
{
	budget.clock_ns = time_of_clock();
	atomic_set(&accounts, (struct accounts *)((char *)family + HEAP_FAMILY_BUDGET));
	budget.ppm = region->settings.budget_ppm;
	budget.allowance_ns = allowance_in(region);
	budget.start_ns = 0;
	budget.started_ns = clock_now_ns();
	budget.told_ns = 0;
	budget.before_ns = 0;
	budget.before_ns = cpu_of_process();
}

AT_FORK void heap_budget_forked(void)
{
	budget.before_ns = 0;
	budget.told_ns = 0;
}

static void add_cpu(uint64_t ns)
{
	counter_add(&accounts->cpu_ns, ns);
	counter_add(&heap_region->counters[HEAP_CPU_NS], ns);
}

static uint64_t cpu_of_all(void)
{
	uint64_t now = cpu_of_process();
	uint64_t told = counter_get(&budget.told_ns);

	if (now > told && atomic_cas(&budget.told_ns, &told, now))
		add_cpu(now - told);
	return counter_get(&accounts->cpu_ns);
}

void heap_budget_end(void)
{
	cpu_of_all();
}

static uint64_t share_of(uint64_t cpu_ns)
{
	return cpu_ns / 1000 * budget.ppm / (PPM / 1000);
}

/* Half at once, and then a quarter of the rest with each time that the age doubles. */
static uint64_t allowance_now(void)
{
	uint64_t age_ns = clock_now_ns() - budget.started_ns;
	uint64_t kept = budget.allowance_ns / 2;

	for (; age_ns > YOUNG_NS && kept; age_ns /= 2)
		kept -= (kept + 3) / 4;
	return budget.allowance_ns - kept + budget.start_ns;
}

static uint64_t spent_on_calls(void)
{
	return counter_get(&accounts->watches_ns) + counter_get(&accounts->calls_ns);
}

static uint64_t spent_on(enum heap_account account)
{
	return counter_get(&accounts->spent_ns[account]);
}

static uint64_t spent_ns(void)
{
	return spent_on(HEAP_FOR_CONTEXTS) + spent_on(HEAP_FOR_ALL) + spent_on_calls();
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* ---- the two accounts ---- */

/* Calls and registers leave a part to samples in any case. */
static bool is_open_for_contexts(void)
{
	uint64_t allowance = allowance_now();
	uint64_t spent = spent_on(HEAP_FOR_CONTEXTS);

	/* The clock of the CPU is read only when the allowance is used up. */
	if (spent_ns() < allowance)
		return true;
	uint64_t share = share_of(cpu_of_all());
	if (spent >= larger(allowance + share / LEAST_PARTS, share / 2))
		return false;
	return spent_ns() < larger(share, allowance + share / 2) || spent < share / LEAST_PARTS;
}

static uint64_t left_for_all(uint64_t share)
{
	uint64_t spent = spent_on(HEAP_FOR_ALL);
	uint64_t reserve = smaller(RESERVE_NS, share / LEAST_PARTS);

	return larger(less(share, spent_ns() + reserve), less(share / LEAST_PARTS_OF_ALL, spent));
}

static uint64_t coarse_now_ns(void)
{
	struct timespec now = { 0, 0 };

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Blocks that stay would fill the pool and end the search: a fuller one takes fewer. */
static bool has_room(void)
{
	uint64_t live = counter_get(&heap_live);

	if (live < HEAP_PAGE_SLOTS / 2 || heap_region->settings.first)
		return true;
	uint64_t left = less(HEAP_PAGE_SLOTS, live);
	if (left && heap_random() % (HEAP_PAGE_SLOTS / 2) < left)
		return true;
	counter_add(&heap_region->counters[HEAP_LOST_FULL], 1u);
	return false;
}

bool heap_budget_affords(enum heap_account account)
{
	if (!has_room())
		return false;
	/* What is refused here makes N larger, and the summary has N as it was. */
	if (account == HEAP_FOR_ALL)
		return left_for_all(share_of(cpu_of_all())) != 0;
	if (coarse_now_ns() >= counter_get(&accounts->closed_until_ns)) {
		if (is_open_for_contexts())
			return true;
		atomic_set(&accounts->closed_until_ns, coarse_now_ns() + REFUSED_NS);
	}
	counter_add(&heap_region->counters[HEAP_LOST_BUDGET], 1u);
	return false;
}

bool heap_budget_is_left(void)
{
	return heap_region->settings.first || is_open_for_contexts();
}

static uint64_t ask_ns(void)
{
	uint64_t sum = counter_get(&accounts->ask_ns);

	return sum ? (sum + ASK_MEAN - 1) / ASK_MEAN : ASK_NS;
}

void heap_budget_look(struct heap_spent *out)
{
	out->cpu_ns = cpu_of_all();
	out->calls = counter_get(&accounts->calls);
	out->drawn_ns = spent_on(HEAP_FOR_ALL);
	out->share_ns = share_of(out->cpu_ns);
	out->left_ns = left_for_all(out->share_ns);
	out->ask_ns = ask_ns();
	out->asked_ns = counter_get(&accounts->asked_ns);
	out->allowance_ns = budget.allowance_ns;
}

/* A part of it, so that registers that watch for long do not end the sampling. */
bool heap_budget_affords_watches(void)
{
	if (heap_region->settings.first)
		return true;
	uint64_t allowance = allowance_now();
	uint64_t watches = counter_get(&accounts->watches_ns);

	if (spent_ns() < allowance && watches < allowance / WATCHES_PARTS)
		return true;
	uint64_t share = share_of(cpu_of_all());
	uint64_t limit = larger(share, allowance + share / 2);
	return spent_ns() < limit && watches < limit / WATCHES_PARTS;
}

bool heap_budget_is_worth_opening(void)
{
	return heap_region->settings.first || cpu_of_process() >= YOUNG_NS;
}

/* ---- what is spent ---- */

static void add(uint64_t *to, uint64_t ns)
{
	counter_add(to, ns);
	counter_add(&heap_region->counters[HEAP_COST_NS], ns);
}

void heap_budget_add_watches(uint64_t ns)
{
	add(&accounts->watches_ns, ns);
}

void heap_budget_add_calls(uint32_t calls, uint32_t asked)
{
	counter_add(&accounts->calls, (uint64_t)calls);
	counter_add(&heap_region->counters[HEAP_CALLS], (uint64_t)calls);
	counter_add(&heap_region->counters[HEAP_ASKED], (uint64_t)asked);
	uint64_t asked_ns = asked * ask_ns();
	uint64_t calls_ns = (uint64_t)calls * CALL_NS + asked_ns;

	counter_add(&accounts->asked_ns, asked_ns);
	counter_add(&heap_region->counters[HEAP_CALLS_NS], calls_ns);
	add(&accounts->calls_ns, calls_ns);
}

void heap_budget_time_ask(uint64_t took_ns)
{
	uint64_t took = less(took_ns, budget.clock_ns);
	uint64_t sum = counter_get(&accounts->ask_ns);

	if (took > ASK_MOST_NS)
		return;
	if (!sum)
		sum = (uint64_t)ASK_NS * ASK_MEAN;
	atomic_set(&accounts->ask_ns, sum - sum / ASK_MEAN + took);
}

/*
 * The clock of the thread steps by the scheduler's period on some machines. So it decides only
 * where a sample took so long that another thread has probably run in between. On a busy machine
 * those would use up the allowance.
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

void heap_budget_spend(uint64_t begun, enum heap_account account)
{
	uint64_t took = clock_now_ns() - begun;
	uint64_t aside = heap_self.aside_ns;

	took = without_others(took < aside ? 0 : took - aside);
	heap_self.aside_ns = 0;
	took = took < LONGEST_NS ? took : LONGEST_NS;
	add(&accounts->spent_ns[account], took + took / AFTER_PARTS);
}

void heap_budget_spend_aside(uint64_t begun)
{
	uint64_t took = clock_now_ns() - begun;

	heap_self.aside_ns += took;
	took = without_others(took);
	add(&accounts->watches_ns, took < LONGEST_MOVE_NS ? took : LONGEST_MOVE_NS);
}

AT_FORK void heap_budget_add_fork(uint64_t took_ns)
{
	const uint64_t cost = FORK_TIMES * took_ns;

	counter_add(&heap_region->counters[HEAP_FORKS_NS], cost);
	counter_add(&heap_region->counters[HEAP_COST_NS], cost);
}

uint64_t heap_budget_begin_long(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static uint64_t spend_long(uint64_t begun)
{
	uint64_t took = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begun;

	add(&accounts->spent_ns[HEAP_FOR_CONTEXTS], took);
	return took;
}

void heap_budget_spend_start(uint64_t begun)
{
	budget.start_ns = smaller(budget.start_ns + spend_long(begun), budget.allowance_ns);
}

void heap_budget_spend_long(uint64_t begun)
{
	spend_long(begun);
}
