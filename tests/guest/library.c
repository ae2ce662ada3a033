/* SPDX-License-Identifier: MIT */
/*
 * library.c - the way "library" of the matrix: preloaded, it makes the program one that uses the library. The
 * environment names the tool. It starts before main(), and ends as the program ends.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <trapline/code.h>
#include <trapline/heap.h>
#include <trapline/tools.h>
#include <trapline/trapline.h>

static struct trapline *own;
static struct trapline_event *event;
static struct trapline_race *race;
static struct trapline_heap *heap;
static struct trapline_throttle *throttle;
static struct trapline_patch *patch;
static struct trapline_traps *traps;
static volatile unsigned long seen;
static volatile long *counter;
static pid_t process;

static void *address_of(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

static enum trapline_action on_hit(const struct trapline_hit *hit)
{
	(void)hit;
	__atomic_fetch_add(&seen, 1, __ATOMIC_RELAXED);
	return TRAPLINE_GO_ON;
}

static void on_race(void *arg, const struct trapline_race_report *report)
{
	(void)arg;
	(void)report;
}

static void on_heap(void *arg, const struct trapline_heap_report *report)
{
	(void)arg;
	(void)report;
}

static long same_step(long x)
{
	__asm__ volatile("" ::: "memory");
	*counter = x;
	return x + 1;
}

static int start_race(void)
{
	struct trapline_race_opts opts = { .size = sizeof(opts), .budget_ppm = 200000, .report = on_race };

	return trapline_race_start(own, &opts, &race);
}

static int start_heap(void)
{
	struct trapline_heap_opts opts = { .size = sizeof(opts), .first = 100, .report = on_heap };

	return trapline_heap_start(own, &opts, &heap);
}

static int start_throttle(void)
{
	struct trapline_throttle_opts opts = {
		.size = sizeof(opts),
		.flags = TRAPLINE_THROTTLE_SLEEP,
		.counter = TRAPLINE_TASK_CLOCK,
		.per_second = 600000000,
		.scope = TRAPLINE_PROCESS,
	};

	return trapline_throttle(own, &opts, &throttle);
}

static struct trapline_event_opts of_process(void)
{
	return (struct trapline_event_opts){ .size = sizeof(struct trapline_event_opts),
					     .callback = on_hit,
					     .scope = TRAPLINE_PROCESS };
}

static int start_watch(void)
{
	struct trapline_event_opts opts = of_process();

	return trapline_watch(own, (uint64_t)address_of("counter"), 8, TRAPLINE_WRITE, &opts, &event);
}

static int start_break(void)
{
	struct trapline_event_opts opts = of_process();

	return trapline_break(own, (uint64_t)address_of("step"), &opts, &event);
}

static int start_probe(void)
{
	struct trapline_event_opts opts = of_process();

	return trapline_probe(own, (uint64_t)address_of("step"), &opts, &event);
}

static int start_patch(void)
{
	const struct trapline_patch_function function = { .name = "step",
							   .old_address = (uint64_t)address_of("step"),
							   .new_address = (uint64_t)same_step };
	const struct trapline_patch_opts opts = { .size = sizeof(opts),
						  .consistency = TRAPLINE_PATCH_IMMEDIATE };

	return trapline_patch(own, &function, 1, &opts, &patch);
}

static void on_trap(const struct trapline_trap_hit *hit)
{
	(void)hit;
}

static int start_traps(void)
{
	const uint64_t site = (uint64_t)address_of("step");
	const struct trapline_traps_opts opts = { .size = sizeof(opts), .callback = on_trap };

	return trapline_traps_set(&site, 1, &opts, &traps);
}

static const struct {
	const char *name;
	int (*start)(void);
} tools[] = {
	{ "race", start_race },	  { "heap", start_heap },   { "throttle", start_throttle },
	{ "watch", start_watch }, { "break", start_break }, { "probe", start_probe },
	{ "patch", start_patch }, { "traps", start_traps },
};

__attribute__((constructor)) static void start(void)
{
	const char *name = getenv("GUEST_TOOL");
	const struct trapline_open_opts opts = { .size = sizeof(opts) };
	char why[200];
	int error = -1;

	/* Children are programs of their own. */
	unsetenv("LD_PRELOAD");
	counter = address_of("counter");
	if (!name || !counter || !address_of("step"))
		return;
	unsetenv("GUEST_TOOL");
	process = getpid();
	error = trapline_open(0, &opts, &own);
	for (unsigned int i = 0; !error && i < sizeof(tools) / sizeof(tools[0]); i++)
		if (!strcmp(tools[i].name, name))
			error = tools[i].start();
	if (!error)
		return;
	trapline_explain(error, why, sizeof(why));
	fprintf(stderr, "refused: %s\n", why);
}

__attribute__((destructor)) static void stop(void)
{
	if (getpid() != process)
		return;
	trapline_race_stop(race);
	if (heap)
		trapline_heap_stop(heap);
	if (throttle)
		trapline_throttle_end(throttle);
	if (patch)
		trapline_patch_undo(patch, 1000000000);
	if (traps)
		trapline_traps_remove(traps);
	if (event)
		trapline_event_close(event);
	trapline_close(own);
}
