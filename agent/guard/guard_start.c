/* SPDX-License-Identifier: MIT */
/* guard_start.c - the object that is preloaded for `trapline heap` begins and ends. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <trapline/trapline.h>

#include "agent/guard/guard.h"
#include "agent/guard/guard_next.h"
#include "agent/zydis.h"
#include "base/atomic.h"
#include "base/own_status.h"
#include "guest/run.h"
#include "guest/signals.h"
#include "heap/heap_budget.h"
#include "heap/heap_fork.h"
#include "heap/heap_watch.h"
#include "trap/install.h"

static struct run guard_run;

void *guard_next(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

/* Once, and not in each child: the look-up takes as long as all else of its end. */
static __typeof__(_exit) *next__exit;

static void find_exit(void)
{
	if (!next__exit)
		next__exit = (__typeof__(_exit) *)guard_next("_exit");
}

static void refuse(struct heap_region *region, int err)
{
	counter_add(&region->counters[HEAP_REFUSED], 1u);
	snprintf(region->run.why, sizeof(region->run.why), "%s", strerror(-err));
}

/* In SIGTRAP: the program blocks it, and a signal has come that shall wait. */
static int end_for_program(void)
{
	heap_watch_end();
	return 0;
}

/* By a debugger, for which each trap is a stop. */
static bool is_traced(void)
{
	return own_status("\nTracerPid:\t") > '0';
}

/* Without debug registers reads before a block are found by chance only, which is stated. */
static void start_watches(struct heap_region *region)
{
	if (is_traced()) {
		counter_add(&region->counters[HEAP_UNWATCHED], 1u);
		snprintf(region->why_unwatched, sizeof(region->why_unwatched),
			 "a debugger runs it");
		return;
	}
	if (region->settings.growth)
		return;
	uint64_t begun = heap_budget_begin_long();
	signals_prepare(end_for_program);
	signals_spare_stacks(1);
	int err = zydis_open() ? -ELIBACC : heap_watch_start();
	heap_budget_spend_start(begun);
	if (!err) {
		signals_are_ours(1);
		return;
	}
	if (!trap_is_installed())
		signals_give_back();
	else
		signals_are_ours(1);
	counter_add(&region->counters[HEAP_UNWATCHED], 1u);
	trapline_explain(err, region->why_unwatched, sizeof(region->why_unwatched));
}

static int guard_begin(void *region)
{
	run_follow_forks(&guard_run);
	int err = heap_start(region);
	if (err)
		refuse(region, err);
	else
		start_watches(region);
	return err;
}

static struct run guard_run = {
	.option = "heap=",
	.magic = HEAP_MAGIC,
	.bytes = sizeof(struct heap_region),
	.flags = RUN_OWN_SIGNALS,
	.start = guard_begin,
	.fork_begins = heap_fork_begins,
	.fork_ended = heap_fork_ended,
	.forked = heap_forked,
};

__attribute__((constructor)) static void guard_start(void)
{
	static struct run *const tools[] = { &guard_run };

	guard_find_next();
	find_exit();
	run_start(tools, 1, end_for_program);
}

__attribute__((destructor)) static void guard_end(void)
{
	heap_end();
}

/* Ways to end that call no destructor. */
GUARD_EXPORT _Noreturn void GUARD_NAME(_exit)(int status)
{
	find_exit();
	heap_end();
	next__exit(status);
	__builtin_unreachable();
}

GUARD_EXPORT _Noreturn void GUARD_NAME(_Exit)(int status)
{
	GUARD_NAME(_exit)(status);
}

GUARD_EXPORT _Noreturn void GUARD_NAME(abort)(void)
{
	NEXT(abort);
	heap_end();
	next_abort();
	__builtin_unreachable();
}
