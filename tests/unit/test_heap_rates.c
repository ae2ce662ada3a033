/* SPDX-License-Identifier: MIT */
/*
 * test_heap_rates.c - a fleet of hosts finds an error of the heap in the time that trapline-patrol(1) has.
 *
 * What chooses blocks is the detector's own code. The clock and what a sample costs are simulated.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "heap/heap_budget.h"
#include "heap/heap_context.h"
#include "heap/heap_draw.h"
#include "heap/heap_frames.h"
#include "heap/heap_growth.h"
#include "heap/heap_watch.h"
#include "random.h"
#include "rates.h"

#define FLEETS 400
#define VISITS 2 /* of a host in a day */
#define CONTEXTS 2
#define BLOCKS 500 /* of a context in a visit */
#define SAMPLE_NS 10000u
#define BLOCK_NS 100000u /* of CPU time between two */
#define SHARE 50u	 /* one of so many nanoseconds, 2% */
#define FAMILY_USED (4096u + 16u * 1024u) /* the accounts, and the first of its tables */
#define MEAN 10.0	 /* N: 10,000 blocks a second, 10 us each, and 1% is left */

static struct heap_region region;
static uint64_t now_ns;
static struct heap_spent spent;
static uint64_t frames[CONTEXTS][2];

/* ---- what the choosing code asks for ---- */

__thread struct heap_thread heap_self;
struct heap_range heap_range;
struct heap_region *heap_region = &region;
uint32_t heap_is_growth;
uint32_t heap_is_over;
uint32_t heap_run;

int clock_gettime(clockid_t clock, struct timespec *out)
{
	if (clock != CLOCK_MONOTONIC)
		return (int)syscall(SYS_clock_gettime, clock, out);
	out->tv_sec = (time_t)(now_ns / 1000000000u);
	out->tv_nsec = (long)(now_ns % 1000000000u);
	return 0;
}

uint64_t heap_budget_begin(void)
{
	return 0;
}

void heap_budget_spend(uint64_t begun, enum heap_account account)
{
}

bool heap_budget_affords(enum heap_account account)
{
	return true;
}

void heap_budget_add_calls(uint32_t calls, uint32_t asked)
{
	spent.calls += calls;
}

void heap_budget_time_ask(uint64_t took_ns)
{
}

/* Half of the share is for all blocks alike. */
void heap_budget_look(struct heap_spent *out)
{
	uint64_t half;

	spent.cpu_ns = now_ns;
	spent.share_ns = now_ns / SHARE;
	half = spent.share_ns / 2;
	spent.left_ns = half > spent.drawn_ns ? half - spent.drawn_ns : 0;
	*out = spent;
}

void heap_walk(struct heap_walk *walk, const uint64_t *frame)
{
	walk->count = 0;
}

void heap_watch_look(void)
{
}

void heap_growth_pay(uint32_t calls)
{
}

/* ---- visits ---- */

static void begin_visit(uint64_t seed)
{
	memset(region.family, 0, FAMILY_USED);
	heap_draw_start(seed, region.family);
	heap_context_forget(0, region.family);
	heap_self = (struct heap_thread){ .busy = 0 };
	spent = (struct heap_spent){ .ask_ns = 1 };
	now_ns = 0;
	heap_run++;
}

/* One block of a context; true: it is sampled. */
static bool allocate(int context)
{
	now_ns += BLOCK_NS;
	uint32_t nth = heap_wants(frames[context]);

	if (nth == HEAP_DRAWN) {
		spent.drawn_ns += SAMPLE_NS;
		heap_draw_count();
	}
	return nth != 0;
}

/* Each run of `trapline heap` draws one: heap_settings.c. */
static uint64_t draw_seed(void)
{
	uint32_t seed = 0;

	assert_int_equal(getrandom(&seed, sizeof(seed), 0), sizeof(seed));
	return seed ? seed : 1;
}

static int start(void **state)
{
	random_seed();
	heap_range.bytes = 1;
	for (int i = 0; i < CONTEXTS; i++)
		frames[i][1] = (uint64_t)(i + 1) << 12;
	return heap_context_start(0, region.family);
}

/* When a wrong block of context 0 is sampled, as a part of a visit; or `most`. */
static double visit(uint64_t one_in, double most)
{
	begin_visit(draw_seed());
	for (int i = 1; i < most * BLOCKS; i++) {
		for (int c = 1; c < CONTEXTS; c++)
			allocate(c);
		if (allocate(0) && random_below(one_in) == 0)
			return (double)i / BLOCKS;
	}
	return most;
}

/* The days until the first of the hosts finds it, or more than `most`. */
static double fleet(int hosts, uint64_t one_in, double most)
{
	for (int n = 0; n <= most * VISITS; n++) {
		double first = 1;

		for (int i = 0; i < hosts; i++)
			first = visit(one_in, first);
		if (first < 1)
			return (n + first) / VISITS;
	}
	return most + 1;
}

static void check_fleet(int hosts, int k)
{
	double a_day = VISITS * rates_samples(BLOCKS, MEAN);
	double half = rates_days(0.5, k, a_day, hosts);
	double most = rates_days(0.9, k, a_day, hosts);
	uint64_t one_in = (uint64_t)pow(10, k);
	int by_half = 0;
	int by_most = 0;

	for (int i = 0; i < FLEETS; i++) {
		double days = fleet(hosts, one_in, most);

		by_half += days <= half;
		by_most += days <= most;
	}
	print_message("# %d hosts, 1 in 10^%d: %d of %d fleets after %.3g days, %d after %.3g\n",
		      hosts, k, by_half, FLEETS, half, by_most, most);
	assert_true(rates_fits(by_half, FLEETS, 0.5, 0.1));
	assert_true(rates_fits(by_most, FLEETS, 0.9, 0.02));
}

static void one_host_finds_it_in_the_time_of_the_page(void **state)
{
	check_fleet(1, 3);
}

static void ten_hosts_find_it_ten_times_as_fast(void **state)
{
	check_fleet(10, 3);
}

static void hundred_hosts_find_it_a_hundred_times_as_fast(void **state)
{
	check_fleet(100, 4);
}

static void thousand_hosts_find_it_a_thousand_times_as_fast(void **state)
{
	check_fleet(1000, 5);
}

/* ---- the same block on each host ---- */

#define HOSTS 1000
#define NTH 300 /* sampled with the chance 1 / N, or 1 / 256 for its context */

static bool is_sampled(uint64_t seed)
{
	begin_visit(seed);
	for (int i = 1; i < NTH; i++)
		allocate(0);
	return allocate(0);
}

static void hosts_do_not_sample_the_same_blocks(void **state)
{
	int found = 0;
	int again = 0;
	uint64_t seed = draw_seed();
	bool first = is_sampled(seed);

	for (int i = 0; i < HOSTS; i++) {
		found += is_sampled(draw_seed());
		again += is_sampled(seed) == first;
	}
	print_message("# block %d is sampled on %d of %d hosts\n", NTH, found, HOSTS);
	assert_true(rates_fits(found, HOSTS, 1 - (1 - 1 / MEAN) * (1 - 1.0 / 256), 0.05));
	/* One seed for all of them finds it on all, or on none. */
	assert_int_equal(again, HOSTS);
}

/* ---- the table of the page ---- */

static const char *page;

/* Rows of "10^K 50% DAYS DAYS DAYS DAYS", below what they are for. */
static void table_of_the_page_is_what_follows(void **state)
{
	FILE *f = fopen(page, "r");
	char line[512];
	double a_day = 0;
	int rows = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		double days[4];
		double percent;
		double n[3];
		int k;

		if (sscanf(line, "visits a day: %lf; blocks a visit: %lf; N: %lf", &n[0], &n[1],
			   &n[2]) == 3)
			a_day = n[0] * rates_samples(n[1], n[2]);
		if (sscanf(line, "10^%d %lf%% %lf %lf %lf %lf", &k, &percent, &days[0], &days[1],
			   &days[2], &days[3]) != 6)
			continue;
		rows++;
		for (int i = 0; i < 4; i++) {
			double want = rates_days(percent / 100, k, a_day, pow(10, i));

			if (!(fabs(days[i] - want) < 0.04 * want))
				fail_msg("%s: %g hosts: it has %g days, and %g follow", line,
					 pow(10, i), days[i], want);
		}
	}
	fclose(f);
	assert_int_equal(rows, 8);
	/* Blocks 1 to 3 of a context: the first one, and one of the next two. */
	assert_true(20 * rates_samples(3, 1e9) > 39.9 && 20 * rates_samples(3, 1e9) < 40.1);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_host_finds_it_in_the_time_of_the_page),
		cmocka_unit_test(ten_hosts_find_it_ten_times_as_fast),
		cmocka_unit_test(hundred_hosts_find_it_a_hundred_times_as_fast),
		cmocka_unit_test(thousand_hosts_find_it_a_thousand_times_as_fast),
		cmocka_unit_test(hosts_do_not_sample_the_same_blocks),
		cmocka_unit_test(table_of_the_page_is_what_follows),
	};

	page = argc > 1 ? argv[1] : "man/trapline-patrol.1";
	return cmocka_run_group_tests(tests, start, NULL);
}
