/* SPDX-License-Identifier: MIT */
/* guard_start.c - the object that is preloaded for `trapline heap` begins and ends. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <trapline/trapline.h>

#include "agent/guard/guard.h"
#include "agent/guard/guard_next.h"
#include "agent/zydis.h"
#include "base/atomic.h"
#include "base/own_status.h"
#include "guest/environment.h"
#include "guest/sanitizer.h"
#include "guest/share.h"
#include "guest/signals.h"
#include "heap/heap_budget.h"
#include "heap/heap_watch.h"
#include "trap/install.h"

#define HEAP_OPTION "heap="

void *guard_next(const char *name)
{
	return dlsym(RTLD_NEXT, name);
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

/* Without debug registers reads before a block are found by chance only, which is said. */
static void start_watches(struct heap_region *region)
{
	if (is_traced()) {
		counter_add(&region->counters[HEAP_UNWATCHED], 1u);
		snprintf(region->why_unwatched, sizeof(region->why_unwatched),
			 "a debugger runs it");
		return;
	}
	uint64_t begun = heap_budget_begin_long();
	signals_prepare(end_for_program);
	signals_spare_stacks(1);
	int err = zydis_open() ? -ELIBACC : heap_watch_start();
	heap_budget_spend_long(begun);
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

__attribute__((constructor)) static void guard_start(void)
{
	char path[256];

	guard_find_next();
	if (getauxval(AT_SECURE) || sanitizer_is_here() ||
	    !environment_option(getenv("TRAPLINE_OPTIONS"), HEAP_OPTION, path, sizeof(path)))
		return;
	struct heap_region *region = share_map(path, HEAP_MAGIC, sizeof(*region));
	if (!region)
		return;
	pthread_atfork(NULL, NULL, heap_forked);
	int err = heap_start(region);
	if (err)
		refuse(region, err);
	else
		start_watches(region);
}

__attribute__((destructor)) static void guard_end(void)
{
	heap_end();
}

/* Ways to end that call no destructor. */
GUARD_EXPORT _Noreturn void GUARD_NAME(_exit)(int status)
{
	NEXT(_exit);
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
