/* SPDX-License-Identifier: MIT */
/* agent_throttle.c - the budgets of `trapline throttle` in the target. */
#include "agent/agent_tools.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/zydis.h"
#include "base/atomic.h"
#include "base/memory.h"
#include "base/sys.h"
#include "core/target.h"
#include "record/throttle_region.h"
#include "throttle/throttle_open.h"
#include "trap/dispatch.h"

#define STACK_BYTES (128u << 10)

_Static_assert(sizeof(((struct throttle_region *)0)->why) <= sizeof(((struct run_words *)0)->why),
	       "the words of a run have room for why there is no budget");

static struct throttle_region *region;
static struct trapline *self;
static int is_at_rest;
static struct trapline_throttle *open_budgets[THROTTLE_BUDGETS];

static struct trapline_throttle_opts options_of(uint32_t i)
{
	const struct throttle_limit *b = &region->limits[i];

	return (struct trapline_throttle_opts){
		.size = sizeof(struct trapline_throttle_opts),
		.flags = b->flags,
		.counter = b->counter,
		.per_second = b->per_second,
	};
}

static int open_budget(uint32_t i)
{
	const struct trapline_throttle_opts opts = options_of(i);

	return throttle_open(self, &opts, region, i, &open_budgets[i]);
}

static void report_failure(int err, const char *why)
{
	size_t n = strlen(why);

	memcpy(region->why, why, n < sizeof(region->why) ? n + 1 : sizeof(region->why));
	atomic_set(&region->error, err);
	atomic_add(&region->failures, 1u);
}

static int begin(void)
{
	uint32_t count = region->count < THROTTLE_BUDGETS ? region->count : THROTTLE_BUDGETS;
	char why[sizeof(region->why)] = "";
	int err = trapline_open(0, NULL, &self);

	for (uint32_t i = 0; !err && i < count; i++)
		err = open_budget(i);
	atomic_add(&region->processes, 1u);
	if (self)
		target_drop_descriptors(self);
	if (!err)
		return 0;
	trapline_explain(err, why, sizeof(why));
	report_failure(err, why);
	return err;
}

/* -EBUSY: a thread does not leave its check in time, for it has no CPU: the region stays. */
static int close_budgets(void)
{
	int err = 0;

	for (uint32_t i = 0; i < THROTTLE_BUDGETS; i++)
		if (open_budgets[i] && throttle_end(open_budgets[i]))
			err = -EBUSY;
	memset(open_budgets, 0, sizeof(open_budgets));
	if (self)
		trapline_close(self);
	self = NULL;
	return err;
}

/* The memory of a command that has ended: nothing of it stays. */
static void end_last(void)
{
	if (!close_budgets())
		memory_unmap(region, sizeof(*region));
	region = NULL;
}

/* 1: another command has a budget here. */
static int take_region(void *shared)
{
	if (region && !atomic_get(&region->stop) &&
	    sys2(SYS_kill, region->share.observer, 0) != -ESRCH)
		return 0;
	if (region)
		end_last();
	region = shared;
	is_at_rest = 0;
	return 1;
}

static int throttle_start(void *shared)
{
	if (!take_region(shared)) {
		memory_unmap(shared, sizeof(*region));
		return -EBUSY;
	}
	const int err = begin();
	if (err) {
		end_last();
		return err;
	}
	run_follow_forks(&agent_throttle);
	return 0;
}

/* ---- in a process that runs ---- */

static int is_region_used; /* by a thread in a check, after the end */

/*
 * The jumps into libc need the decoder, which is opened in the borrowed thread: see agent_probe.c.
 */
static void throttle_comes(int is_late)
{
	if (is_late)
		zydis_open();
}

static int throttle_arm(void *shared, int is_late)
{
	(void)is_late;
	throttle_spare(1);
	if (!take_region(shared))
		return -EBUSY;
	const int err = begin();
	if (!err) {
		return 0;
	}
	memcpy(region->run.why, region->why, sizeof(region->why));
	close_budgets();
	region = NULL;
	return err;
}

/* The lock is tried all the while, beside the inspects the action of SIGTRAP. */
static int throttle_tick(uint64_t passed_ns)
{
	(void)passed_ns;
	return 0;
}

static void throttle_leave(void *shared)
{
	struct throttle_region *r = shared;

	atomic_set(&r->stop, 1u);
	is_region_used = close_budgets();
	region = NULL;
}

static void throttle_replaced(void)
{
	agent_throttle_rest(RUN_REPLACED_TRAP);
}

static int throttle_give(void)
{
	return is_region_used;
}

static void throttle_ended(void *shared)
{
	(void)shared;
	late_calls.wait_for_masks();
}

void agent_throttle_let_go(const char *why)
{
	if (!region)
		return;
	if (!atomic_get(&region->stop))
		report_failure(-ECANCELED, why);
	end_last();
	trap_make_no_calls();
}

void agent_throttle_rest(const char *why)
{
	if (!region || atomic_get(&region->stop))
		return;
	if (!atomic_swap(&is_at_rest, 1))
		report_failure(-ECANCELED, why);
	/* Two threads may be here: for neither a check comes after this. */
	for (uint32_t i = 0; i < THROTTLE_BUDGETS; i++)
		if (open_budgets[i])
			throttle_rest(open_budgets[i]);
}

/* Events do not follow a fork: the child opens its own, and draws from the same accounts. */
static void throttle_agent_forked(void)
{
	run_forget_parent(&agent_throttle);
	if (!region || is_at_rest || atomic_get(&region->stop))
		return;
	memset(open_budgets, 0, sizeof(open_budgets));
	throttle_forked();
	begin();
}

struct run agent_throttle = {
	.option = "throttle=",
	.magic = THROTTLE_MAGIC,
	.bytes = sizeof(struct throttle_region),
	.flags = RUN_OPENS_TRAP | RUN_OWN_TABLE,
	.calls = &late_calls,
	.replaced = throttle_replaced,
	.start = throttle_start,
	.stack_bytes = STACK_BYTES,
	.comes = throttle_comes,
	.arm = throttle_arm,
	.tick = throttle_tick,
	.end = throttle_leave,
	.give = throttle_give,
	.ended = throttle_ended,
	.forked = throttle_agent_forked,
	.lock = KEPT_FD_NONE,
};
