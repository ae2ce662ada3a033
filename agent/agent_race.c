/* SPDX-License-Identifier: MIT */
/* agent_race.c - `trapline race` in the target. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>

#include "agent/agent_tools.h"
#include "agent/heap/heap.h"
#include "agent/zydis.h"
#include "base/memory.h"
#include "guest/own_thread.h"
#include "race/race.h"

#define STACK_BYTES (64u << 10)

/*
 * A thread that is created while a watch is being armed may not be covered by it, and the kernel
 * does not show which. So thread creations are recorded, and some are taken for samples; nothing
 * else is done to them.
 */
__attribute__((visibility("default"))) int
pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
	static race_create next;

	if (!next)
		next = (race_create)dlsym(RTLD_NEXT, "pthread_create");
	race_sites_begin(next);
	race_birth_begins((uintptr_t)start);
	int err = next(thread, attr, start, arg);
	race_birth_ends();
	return err;
}

/* The object that notes blocks is there only where --heap was asked for. */
#pragma weak trapline_heap_find
#pragma weak trapline_heap_count_into

static void use_heap(void)
{
	uint64_t *lost_blocks = race_counter_of(RACE_HEAP_LOST_BLOCKS);
	uint64_t *lost_stacks = race_counter_of(RACE_HEAP_LOST_STACKS);

	if (!trapline_heap_find || !trapline_heap_count_into || !lost_blocks)
		return;
	race_use_heap(trapline_heap_find);
	trapline_heap_count_into(lost_blocks, lost_stacks);
}

static int begin(struct race_region *region, uint32_t flags)
{
	int err = zydis_open() ? -ELIBACC : 0;

	if (err)
		race_refuse(region, RACE_STEP_DECODER, err);
	else
		err = race_start(region, flags);
	if (err)
		memory_unmap(region, sizeof(*region));
	return err;
}

static int start(void *region)
{
	run_follow_forks(&agent_race);
	const int err = begin(region, 0);
	if (!err)
		use_heap();
	return err;
}

/*
 * The threads run already, and nothing of theirs comes through us: they are inspected as they are.
 * All stays as it was when the search has ended, except for Trapline and the handler of SIGTRAP.
 */
static int attach(void *shared)
{
	struct race_region *region = shared;
	const int err = begin(region, RACE_IS_LATE | RACE_OWNS_REGION);

	if (!err)
		run_follow_forks(&agent_race);
	return err;
}

/* Without the decoder libc cannot be changed. begin() reports whether it failed. */
static void comes(int is_late)
{
	if (is_late)
		zydis_open();
}

static void replaced(void)
{
	race_stop(RACE_STEP_REPLACED);
}

/* Where no thread of the program runs, this one ends the search. */
static int is_over(void)
{
	if (race_is_asked_to_end()) {
		own_thread_opens();
		race_stop(RACE_STEP_NONE);
		own_thread_shuts();
	}
	race_end_if_left();
	return race_has_ended_for(0);
}

static void race_agent_forked(void)
{
	race_forked();
	use_heap();
}

struct run agent_race = {
	.option = "race=",
	.magic = RACE_MAGIC,
	.bytes = sizeof(struct race_region),
	.flags = RUN_TRAPS_ON_STACKS | RUN_OPENS_TRAP | RUN_OWN_TABLE,
	.calls = &late_calls,
	.replaced = replaced,
	.stack_bytes = STACK_BYTES,
	.start = start,
	.attach = attach,
	.comes = comes,
	.is_over = is_over,
	.fork_begins = race_fork_begins,
	.fork_ended = race_fork_ended,
	.forked = race_agent_forked,
};
