/* SPDX-License-Identifier: MIT */
/* agent_throttle.c - the budgets of `trapline throttle` in the target. */
#include "agent/agent_tools.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/atomic.h"
#include "base/memory.h"
#include "base/sys.h"
#include "core/target.h"
#include "record/throttle_region.h"
#include "throttle/throttle_open.h"
#include "trap/dispatch.h"

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

/* The command looks whether they are still there. */
static void tell_events(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < THROTTLE_BUDGETS && open_budgets[i]; i++)
		n += throttle_descriptors(open_budgets[i], region->events + n, THROTTLE_EVENTS - n);
	atomic_set(&region->event_count, n);
}

static void tell_failure(int err, const char *why)
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
	tell_failure(err, why);
	return err;
}

/*
 * Of a command that has ended: nothing of it stays. A thread that does not leave its check in time, for
 * it has no CPU, finds the region where it was.
 */
static void end_last(void)
{
	int err = 0;

	for (uint32_t i = 0; i < THROTTLE_BUDGETS; i++)
		if (open_budgets[i] && throttle_end(open_budgets[i]))
			err = -EBUSY;
	memset(open_budgets, 0, sizeof(open_budgets));
	if (self)
		trapline_close(self);
	self = NULL;
	if (!err)
		memory_unmap(region, sizeof(*region));
	region = NULL;
}

static int throttle_begin(void *shared)
{
	if (region && !atomic_get(&region->stop) &&
	    sys2(SYS_kill, region->share.observer, 0) != -ESRCH) {
		memory_unmap(shared, sizeof(*region));
		return -EBUSY;
	}
	if (region)
		end_last();
	region = shared;
	is_at_rest = 0;
	const int err = begin();
	if (err)
		end_last();
	else
		tell_events();
	return err;
}

static int throttle_start_run(void *shared)
{
	const int err = throttle_begin(shared);

	if (!err)
		run_follow_forks(&agent_throttle);
	return err;
}

/* Closes all that a throttle has in this process. */
static int end_by_call(const char *text)
{
	if (region)
		end_last();
	return 0;
}

/* Opens the events again that the program has closed with other descriptors. */
static int open_again(const char *text)
{
	int err = region && self ? 0 : -ENOENT;

	for (uint32_t i = 0; !err && i < THROTTLE_BUDGETS && open_budgets[i]; i++) {
		const struct trapline_throttle_opts opts = options_of(i);

		err = throttle_open_again(self, &opts, open_budgets[i]);
	}
	if (!err)
		tell_events();
	return err;
}

void agent_throttle_let_go(const char *why)
{
	if (!region)
		return;
	if (!atomic_get(&region->stop))
		tell_failure(-ECANCELED, why);
	end_last();
	trap_make_no_calls();
}

void agent_throttle_rest(const char *why)
{
	if (!region || atomic_get(&region->stop) || atomic_swap(&is_at_rest, 1))
		return;
	tell_failure(-ECANCELED, why);
	for (uint32_t i = 0; i < THROTTLE_BUDGETS; i++)
		if (open_budgets[i])
			throttle_rest(open_budgets[i]);
}

/* Events do not follow a fork: the child opens its own, and draws from the same accounts. */
static void throttle_agent_forked(void)
{
	if (!region || is_at_rest || atomic_get(&region->stop))
		return;
	memset(open_budgets, 0, sizeof(open_budgets));
	throttle_forked();
	begin();
}

struct run agent_throttle_end = { .option = "throttle-end=", .call = end_by_call };
struct run agent_throttle_again = { .option = "throttle-again=", .call = open_again };
struct run agent_throttle = {
	.option = "throttle=",
	.magic = THROTTLE_MAGIC,
	.bytes = sizeof(struct throttle_region),
	.start = throttle_start_run,
	.attach = throttle_begin,
	.forked = throttle_agent_forked,
};
