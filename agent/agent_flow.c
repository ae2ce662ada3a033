/* SPDX-License-Identifier: MIT */
/*
 * agent_flow.c - `trapline flow` in the target.
 *
 * The command finds the locations that the user named, in the process that waits here. A program
 * that the process starts by exec has other addresses: there only the functions of libc are sources
 * and sinks.
 */
#include "agent/agent_tools.h"

#include <errno.h>
#include <string.h>

#include "agent/zydis.h"
#include "base/atomic.h"
#include "base/sys.h"
#include "decoder_name.h"
#include "flow/flow.h"
#include "flow/flow_budget.h"
#include "flow/flow_jumps.h"
#include "flow/flow_state.h"
#include "guest/signals.h"

#define STACK_BYTES (256u << 10)
#define MASKS_STEP_NS 20000000
#define MASKS_STEPS 150 /* 3 s */

#define LEAVES 2u /* of is_asked */

static struct {
	uint32_t is_here;
	uint32_t is_asked; /* to end: the program takes SIGTRAP by itself */
	uint32_t was_asked;
	pid_t pid; /* whose thread it is: a child has none */
} flow;

/* Before the command unblocks SIGTRAP in threads: one that is sent to them waits as before. */
static void flow_comes(int is_late)
{
	if (!agent_flow.region) {
		flow.pid = sys_getpid();
		flow.was_asked = 0;
		atomic_set(&flow.is_here, 1u);
	}
	if (is_late)
		zydis_open(); /* here, as in agent_probe.c */
}

static int ask_to_end(const char *why)
{
	struct flow_region *region = agent_flow.region;

	if (!atomic_get(&flow.is_here) || !region || flow.pid != sys_getpid())
		return 0;
	if (!atomic_swap(&flow.is_asked, 1u)) {
		memcpy(region->run.why, why, strlen(why) + 1);
		atomic_set(&region->run.stop, 1u);
	}
	return -EINPROGRESS;
}

int agent_flow_let_go(void)
{
	return ask_to_end("the program takes SIGTRAP itself, while it has the signal blocked");
}

static void flow_replaced(void)
{
	ask_to_end(RUN_REPLACED_TRAP);
}

static int flow_arm(void *shared, int is_late)
{
	struct flow_region *region = shared;
	char why[sizeof(region->run.why)] = "";
	int err = zydis_open() ? -ELIBACC : 0;

	if (err)
		strcpy(why, DECODER_NAME " cannot be loaded");
	else
		err = flow_start(region, !is_late, why, sizeof(why));
	if (!err)
		return 0;
	if (!is_late)
		atomic_set(&flow.is_here, 0u);
	flow_count(FLOW_REFUSED, 1);
	memcpy(region->run.why, why, sizeof(why));
	return err;
}

static int flow_tick(uint64_t passed_ns)
{
	flow_budget_tick(passed_ns);
	return (int)atomic_get(&flow.is_asked);
}

static void flow_leave(void *shared)
{
	struct flow_region *region = shared;

	atomic_set(&region->run.stop, 1u);
	flow_end();
	flow_jumps_end();
	flow_wipe();
	/* Nothing is written into the region for what is asked from here on. */
	flow.was_asked = atomic_swap(&flow.is_asked, LEAVES);
	/*
	 * A program that has asked waits for its signals: all stays mapped, and no thread is waited
	 * for.
	 */
	if (flow.was_asked)
		agent_flow.give = NULL;
}

/*
 * What was sent to the program in the meantime, and is blocked, waits until the command has blocked
 * it again.
 */
static void flow_ended(void *shared)
{
	const struct flow_region *region = shared;
	const struct timespec step = { 0, MASKS_STEP_NS };

	for (int i = 0; atomic_get(&region->are_masks_open) && i < MASKS_STEPS; i++)
		sys_nap(&step);
	atomic_set(&flow.is_here, 0u);
	if (atomic_swap(&flow.is_asked, 0u) == 1 || flow.was_asked)
		signals_tool_has_ended();
}

struct run agent_flow = {
	.option = "flow=",
	.magic = FLOW_MAGIC,
	.bytes = sizeof(struct flow_region),
	.flags = RUN_IS_ONCE | RUN_FOLLOWS_EXEC | RUN_OPENS_TRAP | RUN_OWN_TABLE,
	.calls = &late_calls,
	.replaced = flow_replaced,
	.stack_bytes = STACK_BYTES,
	.comes = flow_comes,
	.arm = flow_arm,
	.tick = flow_tick,
	.end = flow_leave,
	.give = flow_give,
	.ended = flow_ended,
	.lock = KEPT_FD_NONE,
};

__attribute__((destructor)) static void agent_flow_end(void)
{
	flow_end();
}
