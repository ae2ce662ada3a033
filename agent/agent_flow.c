/* SPDX-License-Identifier: MIT */
/*
 * agent_flow.c - see agent_flow.h.
 *
 * The command finds the places that the user named, in the process that waits here. A program that the
 * process starts by exec has other addresses: there only the functions of libc are sources and sinks.
 */
#include "agent/agent_flow.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/file.h>

#include "agent/zydis.h"
#include "base/atomic.h"
#include "base/memory.h"
#include "base/sys.h"
#include "code/kept_fd.h"
#include "decoder_name.h"
#include "flow/flow.h"
#include "flow/flow_begin.h"
#include "flow/flow_places.h"
#include "flow/flow_tell.h"
#include "guest/late_calls.h"
#include "guest/outside.h"
#include "guest/own_stack.h"
#include "guest/own_thread.h"
#include "guest/signals.h"

#define WAIT_STEP_NS 1000000
#define LOOK_EVERY_NS 20000000
#define MASKS_STEPS 150 /* 3 s */
#define STACK_BYTES (256u << 10)
#define LEAVES 2u /* of is_asked */

static struct {
	struct flow_region *region;
	struct kept_fd lock;
	uint32_t runs;
	uint32_t is_asked; /* to end: the program takes SIGTRAP by itself */
	pid_t pid;	   /* whose thread it is: a child has none */
} flow = { .lock = KEPT_FD_NONE };

static int flow_wait_while(struct flow_region *region, enum run_state state)
{
	const struct timespec step = { 0, WAIT_STEP_NS };

	while (atomic_get(&region->run.state) == state) {
		if (!kept_fd_is_ours(&flow.lock) ||
		    !sys2(SYS_flock, flow.lock.fd, LOCK_EX | LOCK_NB))
			return -ECANCELED;
		sys_nap(&step);
	}
	return 0;
}

static int flow_arm(struct flow_region *region, int may_trap)
{
	char why[sizeof(region->run.why)] = "";
	int err = zydis_open() ? -ELIBACC : 0;

	if (err)
		strcpy(why, DECODER_NAME " cannot be loaded");
	else
		err = flow_start(region, may_trap, why, sizeof(why));
	if (!err)
		return 0;
	flow_count(FLOW_REFUSED, 1);
	memcpy(region->run.why, why, sizeof(why));
	atomic_set(&region->run.error, err);
	return err;
}

static int flow_has_command(void)
{
	if (!kept_fd_is_ours(&flow.lock))
		return 0;
	long err = sys2(SYS_flock, flow.lock.fd, LOCK_EX | LOCK_NB);
	return err == -EINTR || err == -EWOULDBLOCK;
}

/* What was sent to the program meanwhile, and is blocked, waits until the command has blocked it again. */
static void flow_leaves(struct flow_region *region, uint32_t was_asked)
{
	const struct timespec step = { 0, LOOK_EVERY_NS };

	for (int i = 0; atomic_get(&region->are_masks_open) && i < MASKS_STEPS; i++)
		sys_nap(&step);
	atomic_set(&flow.runs, 0u);
	if (atomic_swap(&flow.is_asked, 0u) == 1 || was_asked)
		signals_tool_has_ended();
}

int agent_flow_let_go(void)
{
	static const char why[] =
		"the program takes SIGTRAP itself, while it has the signal blocked";

	if (!atomic_get(&flow.runs) || flow.pid != sys_getpid())
		return 0;
	if (!atomic_swap(&flow.is_asked, 1u)) {
		memcpy(flow.region->run.why, why, sizeof(why));
		atomic_set(&flow.region->run.stop, 1u);
	}
	return -EINPROGRESS;
}

static void flow_calls_end(int is_outside)
{
	own_thread_opens();
	late_calls_end(is_outside);
	own_thread_shuts();
}

static void flow_wait_for_end(struct flow_region *region)
{
	const struct timespec step = { 0, LOOK_EVERY_NS };

	while (flow_has_command() && !atomic_get(&flow.is_asked)) {
		sys_nap(&step);
		flow_budget_tick(LOOK_EVERY_NS);
	}
	own_thread_opens();
	atomic_set(&region->run.stop, 1u);
	flow_end();
	flow_places_end();
	flow_wipe();
	own_stacks_end();
	own_thread_shuts();
	kept_fd_close(&flow.lock);
	/* Nothing is written into the region for what is asked from here on. */
	const uint32_t was_asked = atomic_swap(&flow.is_asked, LEAVES);
	/* A program that has asked waits for its signals: then all stays mapped. */
	const int is_outside = !was_asked && !outside_wait(OUTSIDE_MOST_NS);
	const int is_free = is_outside && !flow_give();
	late_calls_rest();
	atomic_set(&region->run.state, (uint32_t)RUN_ENDED);
	flow_leaves(region, was_asked);
	flow_calls_end(is_outside);
	if (is_free)
		memory_unmap(region, sizeof(*region));
}

static void *flow_run_late(void *arg)
{
	struct flow_region *region = arg;

	own_thread_begins();
	int err = flow_wait_while(region, RUN_NEW);
	own_thread_opens();
	late_calls_look_again();
	if (!err)
		err = flow_arm(region, 0);
	own_thread_shuts();
	if (err) {
		late_calls_rest();
		atomic_set(&region->run.state, (uint32_t)RUN_FAILED);
		kept_fd_close(&flow.lock);
		flow_leaves(region, 0);
		flow_calls_end(0);
		return NULL;
	}
	atomic_set(&region->run.state, (uint32_t)RUN_ARMED);
	flow_wait_for_end(region);
	return NULL;
}

static void *flow_run_started(void *arg)
{
	own_thread_begins();
	flow_wait_for_end(arg);
	return NULL;
}

static int flow_take(struct flow_region *shared, int lock)
{
	uint32_t none = 0;

	/* What a run before has left is still looked at by threads: one run in a process. */
	if (flow.region || !atomic_cas(&flow.runs, &none, 1u))
		return -EBUSY;
	flow.region = shared;
	flow.pid = sys_getpid();
	kept_fd_take(&flow.lock, lock);
	return 0;
}

int agent_flow_attach(struct flow_region *shared, int lock)
{
	int err = flow_take(shared, lock);

	if (err) {
		sys_close(lock);
		memory_unmap(shared, sizeof(*shared));
		return err;
	}
	own_thread_prepare();
	return own_thread_start(pthread_create, STACK_BYTES, flow_run_late, shared);
}

int agent_flow_start(struct flow_region *shared, int lock)
{
	uint32_t state = RUN_NEW;
	const int is_first = atomic_cas(&shared->run.state, &state, (uint32_t)RUN_READY);

	if ((!is_first && state != RUN_ARMED) || flow_take(shared, lock)) {
		sys_close(lock);
		memory_unmap(shared, sizeof(*shared));
		return 0;
	}
	if (is_first && flow_wait_while(shared, RUN_READY))
		sys1(SYS_exit_group, 1);
	int err = flow_arm(shared, 1);
	if (!err) {
		own_thread_prepare();
		own_thread_start(pthread_create, STACK_BYTES, flow_run_started, shared);
	}
	if (is_first)
		atomic_set(&shared->run.state, (uint32_t)(err ? RUN_FAILED : RUN_ARMED));
	return !err;
}

__attribute__((destructor)) static void agent_flow_end(void)
{
	flow_end();
}
