/* SPDX-License-Identifier: MIT */
/* throttle.c - the budgets of `trapline throttle` in the target. */
#include "agent/throttle.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/atomic.h"
#include "base/memory.h"
#include "base/sys.h"
#include "throttle_open.h"
#include "trap/trap.h"

static struct throttle_region *region;
static struct trapline *self;
static struct trapline_throttle *open_budgets[THROTTLE_BUDGETS];

static int open_budget(uint32_t i)
{
	const struct throttle_budget *b = &region->budgets[i];
	struct trapline_throttle_opts opts = {
		.size = sizeof(opts),
		.flags = b->flags,
		.counter = b->counter,
		.per_second = b->per_second,
	};

	return throttle_open(self, &opts, region, i, &open_budgets[i]);
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
	if (!err)
		return 0;
	trapline_explain(err, why, sizeof(why));
	tell_failure(err, why);
	return err;
}

/* Of a command that has ended: nothing of it stays. */
static void end_last(void)
{
	for (uint32_t i = 0; i < THROTTLE_BUDGETS; i++)
		trapline_throttle_end(open_budgets[i]);
	memset(open_budgets, 0, sizeof(open_budgets));
	trapline_close(self);
	self = NULL;
	memory_unmap(region, sizeof(*region));
	region = NULL;
}

int agent_throttle_start(struct throttle_region *shared)
{
	if (shared->magic != THROTTLE_MAGIC || shared->bytes != sizeof(*shared))
		return -EPROTO;
	if (region && !atomic_get(&region->stop) &&
	    sys2(SYS_kill, region->observer, 0) != -ESRCH)
		return -EBUSY;
	if (region)
		end_last();
	region = shared;
	return begin();
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

/* Events do not follow a fork: the child opens its own, and draws from the same accounts. */
void agent_throttle_forked(void)
{
	if (!region || atomic_get(&region->stop))
		return;
	memset(open_budgets, 0, sizeof(open_budgets));
	throttle_forked();
	begin();
}
