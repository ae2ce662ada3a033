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
#define CHANGE_STEP_NS 2000000
#define CHANGE_STEPS 500 /* 1 s */

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

/* Of a command that has ended: nothing of it stays. */
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
	tell_events();
	run_follow_forks(&agent_throttle);
	return 0;
}

/* ---- in a process that runs ---- */

static uint32_t is_changing; /* the events: by the thread of the run, or by a call */
static int is_region_used;   /* by a thread in a check, after the end */

/* The jumps into libc need the decoder, which is opened in the borrowed thread: see agent_probe.c. */
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
		tell_events();
		return 0;
	}
	memcpy(region->run.why, region->why, sizeof(region->why));
	close_budgets();
	region = NULL;
	return err;
}

/* The lock is looked at all the while: the program may close it. */
static int throttle_tick(uint64_t passed_ns)
{
	(void)passed_ns;
	return 0;
}

static void throttle_leave(void *shared)
{
	const struct timespec step = { 0, CHANGE_STEP_NS };
	struct throttle_region *r = shared;
	uint32_t none = 0;

	atomic_set(&r->stop, 1u);
	for (int i = 0; i < CHANGE_STEPS && !atomic_cas(&is_changing, &none, 1u); i++) {
		none = 0;
		sys_nap(&step);
	}
	is_region_used = close_budgets();
	region = NULL;
	atomic_set(&is_changing, 0u);
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

/* Opens the events again that the program has closed with other descriptors. */
static int open_again(const char *text)
{
	uint32_t none = 0;

	if (!atomic_cas(&is_changing, &none, 1u))
		return -EBUSY;
	int err = region && self ? 0 : -ENOENT;
	for (uint32_t i = 0; !err && i < THROTTLE_BUDGETS && open_budgets[i]; i++) {
		const struct trapline_throttle_opts opts = options_of(i);

		err = throttle_open_again(self, &opts, open_budgets[i]);
	}
	if (!err)
		tell_events();
	atomic_set(&is_changing, 0u);
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
	run_forget_parent(&agent_throttle);
	atomic_set(&is_changing, 0u);
	if (!region || is_at_rest || atomic_get(&region->stop))
		return;
	memset(open_budgets, 0, sizeof(open_budgets));
	throttle_forked();
	begin();
}

struct run agent_throttle_again = { .option = "throttle-again=", .call = open_again };
struct run agent_throttle = {
	.option = "throttle=",
	.magic = THROTTLE_MAGIC,
	.bytes = sizeof(struct throttle_region),
	.flags = RUN_OPENS_TRAP | RUN_LIVES_ON | RUN_OWN_TABLE,
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
