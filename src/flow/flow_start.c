/* SPDX-License-Identifier: MIT */
/* flow_start.c - following begins and ends in a process. */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <trapline/trapline.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/sys.h"
#include "flow/flow.h"
#include "flow/flow_budget.h"
#include "flow/flow_calls.h"
#include "flow/flow_exec.h"
#include "flow/flow_jumps.h"
#include "flow/flow_mapped.h"
#include "flow/flow_marks.h"
#include "flow/flow_residue.h"
#include "flow/flow_source.h"
#include "flow/flow_state.h"
#include "flow/flow_step.h"
#include "flow/flow_text.h"
#include "flow/flow_watch.h"
#include "flow/flow_window.h"
#include "search/search_locate.h"

#define IDLE 2000u
#define IDLE_WITHOUT_WATCHES 50000u

/* A thread that has a shadow stack cannot run in a window. */
static int check_window(char *why, size_t n)
{
	struct window_area *area;
	int err = window_take(&area);

	if (err == -EOPNOTSUPP)
		snprintf(why, n, "its threads have shadow stacks, or the processor has no XSAVE");
	else if (err)
		trapline_explain(err, why, n);
	return err;
}

/* Shells read it without getenv(3). */
static void find_environment(void)
{
	const char *name = flow_region->settings.environment;
	const size_t length = strlen(name);

	for (char **e = environ; length && e && *e; e++) {
		if (strncmp(*e, name, length) != 0 || (*e)[length] != '=')
			continue;
		const char *value = *e + length + 1;

		if (*value && flow_variable_count < FLOW_VARIABLES)
			flow_variables[flow_variable_count++] = (struct flow_variable){
				.address = (uint64_t)(uintptr_t)value,
				.bytes = (uint32_t)strlen(value),
				.origin = FLOW_FROM_ENVIRONMENT,
				.name = name,
			};
		return;
	}
}

/* The loader writes its address into an object whose functions are bound when they are called. */
static uint64_t find_resolver(void)
{
	const struct link_map *map = dlopen(NULL, RTLD_NOW | RTLD_NOLOAD);

	for (; map; map = map->l_next) {
		const uint64_t *got = NULL;

		for (const ElfW(Dyn) *d = map->l_ld; d && d->d_tag != DT_NULL; d++)
			if (d->d_tag == DT_PLTGOT)
				got = (const uint64_t *)(uintptr_t)d->d_un.d_ptr;
		if (got && (uint64_t)(uintptr_t)got >= map->l_addr && got[2])
			return got[2];
	}
	return 0;
}

/* Without registers a window waits longer for the next touch. */
static int start_watches(char *why, size_t n)
{
	const uint32_t count = flow_watch_start();

	flow_idle_most = count ? IDLE : IDLE_WITHOUT_WATCHES;
	for (uint32_t i = 0; !count && i < flow_variable_count; i++) {
		if (flow_variables[i].origin != FLOW_FROM_VARIABLE)
			continue;
		snprintf(why, n, "a variable needs a debug register, and none is free or fires");
		return -ENOSPC;
	}
	return 0;
}

int flow_start(struct flow_region *region, int may_trap, char *why, size_t n)
{
	int err = flow_marks_start();

	flow_region = region;
	flow_self = sys_getpid();
	search_locate_start();
	if (err)
		trapline_explain(err, why, n);
	if (!err)
		err = check_window(why, n);
	if (!err)
		err = flow_sites_find(why, n);
	if (!err) {
		flow_text_start();
		flow_calls_start(find_resolver());
		flow_mapped_start();
		find_environment();
		err = start_watches(why, n);
	}
	/* Last: what Trapline reads itself is not a source. */
	if (!err)
		err = flow_jumps_start(may_trap, why, n);
	if (!err) {
		flow_exec_start();
		pthread_atfork(NULL, NULL, flow_state_forked);
		flow_budget_start();
		flow_count(FLOW_PROCESSES, 1);
	}
	return err;
}

/*
 * In a process that was attached to the head is a copy of its own. One that is shared stays as it
 * is.
 */
void flow_wipe(void)
{
	flow_source_wipe();
	flow_threads_wipe();
	if (sys3(SYS_mprotect, flow_region, SHARE_HEAD_BYTES, PROT_READ | PROT_WRITE))
		return;
	memset(flow_region->settings.match, 0, sizeof(flow_region->settings.match));
	sys3(SYS_mprotect, flow_region, SHARE_HEAD_BYTES, PROT_READ);
}

int flow_give(void)
{
	int err = window_areas_give();

	if (err)
		return err;
	flow_threads_give();
	flow_marks_give();
	flow_source_give();
	atomic_set(&flow_region, NULL);
	return 0;
}

void flow_end(void)
{
	if (!flow_region || atomic_swap(&flow_has_ended, 1u))
		return;
	flow_exec_end();
	flow_watch_end();
	flow_residue();
	flow_count(FLOW_CPU_NS, clock_ns(CLOCK_PROCESS_CPUTIME_ID));
}
