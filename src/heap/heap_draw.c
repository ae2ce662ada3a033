/* SPDX-License-Identifier: MIT */
/*
 * heap_draw.c - see heap_draw.h.
 *
 * The distance between two blocks that are drawn is exponential: what has passed states nothing of
 * what comes. So a thread may draw again whenever it looks, by the N of that moment.
 *
 * Children share N and the row of seeds with their parent, as they share the accounts.
 */
#include "heap/heap_draw.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/hash.h"
#include "heap/heap.h"
#include "heap/heap_budget.h"
#include "heap/heap_family.h"

#define FIRST_MEAN 1000u /* before anything is known of the program */
#define MEAN_MOST (1u << 24)
#define GROWTH_MEAN_MOST 16384u /* what is not drawn for a while would be missing in the sums */
#define COST_NS 8000u		/* of a sample, before some were taken */
#define COST_KNOWN 16u
#define LOOK_NS 1000000u   /* not more often is the clock of the CPU read */
#define PERIOD_NS 4000000u /* of CPU time */
#define PERIODS 8u	   /* so many periods' budget can be left, and spent in one */
#define ONE 65536u	   /* of fractions */
#define NAP_ONE 16u
#define NAP_MOST (NAP_ONE * 1024u)
#define ASK_PARTS 4u /* of the share, and of the allowance: to look up contexts */

struct pace {
	uint64_t seed;
	uint64_t rows;	/* that threads have begun */
	uint64_t drawn; /* blocks */
	uint64_t look_ns;
	uint64_t cpu_ns; /* the sums when N was computed last */
	uint64_t calls;
	uint64_t share_ns;
	uint32_t mean; /* N */
	uint32_t naps; /* for each allocation that is asked so many are not, in parts of NAP_ONE */
};

_Static_assert(sizeof(struct pace) <= HEAP_FAMILY_COUNTS - HEAP_FAMILY_DRAW, "it has room");

static struct pace *pace;

void heap_draw_start(uint64_t seed, void *family)
{
	struct pace *p = (struct pace *)((char *)family + HEAP_FAMILY_DRAW);

	p->seed = seed;
	p->mean = FIRST_MEAN;
	atomic_set(&pace, p);
}

/* ---- numbers ---- */

/* splitmix64: each row begins elsewhere. */
uint32_t heap_random(void)
{
	struct heap_thread *self = &heap_self;

	if (!self->random)
		self->random = hash_mixed(counter_get(&pace->seed) +
					  (counter_add(&pace->rows, UINT64_C(1)) + 1) * HASH_MIX) |
			       1;
	self->random += 2 * HASH_MIX;
	return (uint32_t)(hash_mixed(self->random) >> 32);
}

/*
 * -ln(r / 2^32), in parts of ONE; r > 0. The logarithm of what is below the first bit is within
 * 0.008.
 */
static uint64_t exponential(uint32_t r)
{
	uint32_t first = (uint32_t)__builtin_clz(r);
	uint64_t rest = (uint64_t)(uint32_t)(r << first << 1) >> 16; /* parts of ONE */
	uint64_t bent = rest * (ONE - rest) / ONE * 22486u / ONE;    /* 0.3431 */
	uint64_t log2 = (uint64_t)(first + 1) * ONE - rest - bent;

	return log2 * 45426u / ONE; /* ln 2 */
}

uint32_t heap_draw_steps(void)
{
	uint64_t mean = counter_get(&pace->mean);
	uint64_t steps = 1;

	/* The distance is whole, at least 1: by half of one less its mean is N. */
	if (mean > 1)
		steps += (2 * mean - 1) * exponential(heap_random() | 1) / (UINT64_C(2) * ONE);
	return (uint32_t)steps;
}

uint32_t heap_draw_mean(void)
{
	return counter_get(&pace->mean);
}

uint32_t heap_draw_nap(uint32_t row)
{
	uint64_t ratio = counter_get(&pace->naps);

	return ratio ? (uint32_t)(ratio * row / NAP_ONE * exponential(heap_random() | 1) / ONE) : 0;
}

/* ---- N ---- */

void heap_draw_count(void)
{
	counter_add(&pace->drawn, UINT64_C(1));
	counter_add(&heap_region->counters[HEAP_DRAWN_BLOCKS], 1u);
}

static uint64_t cost_of_sample(const struct heap_spent *spent)
{
	uint64_t drawn = counter_get(&pace->drawn);

	return drawn < COST_KNOWN ? COST_NS : spent->drawn_ns / drawn;
}

/*
 * What is left, and half of what will be added: so in the long run a period's half is left over,
 * and the limit itself is seldom met.
 */
static uint32_t mean_for(const struct heap_spent *spent)
{
	uint64_t calls = spent->calls - pace->calls;
	uint64_t added = spent->share_ns - pace->share_ns;
	uint64_t left = spent->left_ns < PERIODS * added ? spent->left_ns : PERIODS * added;
	uint64_t room = left + added / 2;
	uint64_t mean = room ? calls * cost_of_sample(spent) / room : MEAN_MOST;

	const uint64_t most = heap_is_growth ? GROWTH_MEAN_MOST : MEAN_MOST;

	return mean < 1 ? 1 : mean < most ? (uint32_t)mean : (uint32_t)most;
}

/* The part of all calls that can be asked. */
static uint32_t naps_for(const struct heap_spent *spent)
{
	uint64_t calls = spent->calls - pace->calls;
	uint64_t added = (spent->share_ns - pace->share_ns) / ASK_PARTS;
	uint64_t cost = calls * spent->ask_ns;

	if (heap_region->settings.first || cost <= added ||
	    spent->asked_ns < spent->allowance_ns / ASK_PARTS)
		return 0;
	uint64_t naps = added ? (cost - added) * NAP_ONE / added : NAP_MOST;
	return naps < NAP_MOST ? (uint32_t)naps : NAP_MOST;
}

void heap_draw_pace(void)
{
	struct heap_spent spent;
	uint64_t now = clock_now_ns();
	uint64_t look_ns = counter_get(&pace->look_ns);

	if (now < look_ns || !atomic_cas(&pace->look_ns, &look_ns, now + LOOK_NS))
		return;
	heap_budget_look(&spent);
	uint64_t before = counter_get(&pace->cpu_ns);
	if (spent.cpu_ns < before + PERIOD_NS || !atomic_cas(&pace->cpu_ns, &before, spent.cpu_ns))
		return;
	if (spent.calls > pace->calls) {
		atomic_set(&pace->mean, mean_for(&spent));
		atomic_set(&pace->naps, naps_for(&spent));
	}
	atomic_set(&pace->calls, spent.calls);
	atomic_set(&pace->share_ns, spent.share_ns);
}
