/* SPDX-License-Identifier: MIT */
/*
 * probe.c - what a call of a small function costs with a probe at its entry, as JSON lines: ns more
 * than the bare call, beside an int3 that stays and a uprobe with BPF.
 *
 * Medians of rounds in turns, in the same run.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <trapline/code.h>
#include <trapline/condition.h>

#define ROUNDS 15
#define ADDR(p) ((uint64_t)(uintptr_t)(p))

static struct trapline *target;
static volatile uint64_t hits;

/* Seven ways in, so that each has a function of its own. */
#define FUNCTION(name)                                    \
	__attribute__((noipa)) uint64_t name(uint64_t a); \
	uint64_t name(uint64_t a)                         \
	{                                                 \
		return a * 5 + 1;                         \
	}
FUNCTION(bare)
FUNCTION(compared)
FUNCTION(computed)
FUNCTION(interpreted)
FUNCTION(called)
FUNCTION(recorded)
FUNCTION(by_kernel)

static enum trapline_action count(const struct trapline_hit *hit)
{
	hits++;
	return TRAPLINE_GO_ON;
}

struct way {
	const char *name;
	uint64_t (*function)(uint64_t);
	const char *condition;
	int by_kernel;
	int is_recorded;
	uint64_t calls;
	struct trapline_event *event;
	double ns[ROUNDS];
	int is_missing;
};

static struct way ways[] = {
	{ .name = "bare call", .function = bare, .calls = 20000000 },
	{ .name = "false, one comparison",
	  .function = compared,
	  .condition = "arg0 == -1",
	  .calls = 20000000 },
	{ .name = "false, computed",
	  .function = computed,
	  .condition = "(arg0 * 3 + arg1 & 0xff) == 0x100 || arg0 + arg2 == -7",
	  .calls = 20000000 },
	{ .name = "false, interpreted",
	  .function = interpreted,
	  .condition = "hits == 0 && arg0 == 1",
	  .calls = 200000 },
	{ .name = "true, callback", .function = called, .condition = "arg0 != -1", .calls = 200000 },
	{ .name = "true, record",
	  .function = recorded,
	  .condition = "arg0 != -1",
	  .is_recorded = 1,
	  .calls = 4000 },
	{ .name = "false, uprobe and BPF",
	  .function = by_kernel,
	  .condition = "arg0 == -1",
	  .by_kernel = 1,
	  .calls = 20000 },
};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

static void open_way(struct way *way)
{
	struct trapline_condition *condition = NULL;
	TRAPLINE_OPTS(event, opts);
	uint64_t site = ADDR(way->function);

	if (!way->condition)
		return;
	if (trapline_condition_parse(way->condition, NULL, &condition))
		abort();
	opts.condition = condition;
	opts.callback = way->by_kernel || way->is_recorded ? NULL : count;
	int err = way->by_kernel ? trapline_break_sites(target, &site, 1, &opts, &way->event) :
				   trapline_probe(target, site, &opts, &way->event);
	trapline_condition_free(condition);
	way->is_missing = err != 0;
}

static double run_way(struct way *way)
{
	struct timespec a;
	struct timespec b;

	clock_gettime(CLOCK_MONOTONIC, &a);
	for (uint64_t i = 0; i < way->calls; i++)
		way->function(i);
	clock_gettime(CLOCK_MONOTONIC, &b);
	return ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) /
	       (double)way->calls;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;

	return (x > y) - (x < y);
}

static void print_way(struct way *way)
{
	const char *mechanism = !way->event    ? "none" :
				way->by_kernel ? "uprobe" :
				trapline_event_mechanism(way->event) == TRAPLINE_BY_PROBE ? "jump" :
											    "int3";

	if (way->is_missing) {
		printf("{\"bench\":\"probe\",\"way\":\"%s\",\"missing\":true}\n", way->name);
		return;
	}
	struct trapline_stats stats = { .size = sizeof(stats) };

	if (way->is_recorded && (trapline_event_stats(way->event, &stats) || stats.lost_ring_full))
		abort();
	qsort(way->ns, ROUNDS, sizeof(way->ns[0]), compare);
	printf("{\"bench\":\"probe\",\"way\":\"%s\",\"mechanism\":\"%s\",\"ns\":%.2f,\"more_ns\":%.2f}\n",
	       way->name, mechanism, way->ns[ROUNDS / 2],
	       way->ns[ROUNDS / 2] - ways[0].ns[ROUNDS / 2]);
}

int main(void)
{
	if (trapline_open(0, NULL, &target))
		return 1;
	for (size_t i = 0; i < WAYS; i++)
		open_way(&ways[i]);
	for (int round = 0; round < ROUNDS; round++) {
		for (size_t i = 0; i < WAYS; i++)
			if (!ways[i].is_missing)
				ways[i].ns[round] = run_way(&ways[i]);
		while (trapline_poll(target, 0, count) > 0)
			;
	}
	for (size_t i = 0; i < WAYS; i++)
		print_way(&ways[i]);
	trapline_close(target);
	return 0;
}
