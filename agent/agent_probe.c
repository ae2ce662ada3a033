/* SPDX-License-Identifier: MIT */
/*
 * agent_probe.c - the probes of `trapline break --mechanism probe` in the target.
 *
 * Threads of the program write their hits into the shared ring, and wait for nothing. One thread of the
 * agent sleeps until the command has ended, and closes the probes. It needs no signal, no timer and no
 * process number: the kernel wakes it when the command's lock goes away, also by SIGKILL.
 */
#include "agent/agent_probe.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <trapline/code.h>
#include <trapline/condition.h>
#include <trapline/trapline.h>

#include "agent/agent_trace.h"
#include "agent/zydis.h"
#include "base/atomic.h"
#include "base/memory.h"
#include "base/sys.h"
#include "base/trap_path.h"
#include "code/kept_fd.h"
#include "cond/compile.h"
#include "core/in_code.h"
#include "core/target.h"
#include "event/event.h"
#include "guest/late_calls.h"
#include "guest/outside.h"
#include "guest/own_stack.h"
#include "guest/own_thread.h"
#include "record/layout.h"
#include "trap/probe_record.h"

#define WAIT_STEP_NS 1000000
#define STACK_BYTES (128u << 10)

static struct {
	struct probe_region *region;
	struct probe_region *last; /* of the run before: a thread may still be about to count there */
	struct trapline *self;
	struct trapline_event *events[PROBE_SITES_MAX];
	struct hit_slots slots;
	uint64_t limit;
	uint32_t texts;
	uint32_t texts_bytes;
	uint32_t stack_bytes;
	uint32_t count;
	struct kept_fd lock;
	uint32_t runs;
} probes = { .lock = KEPT_FD_NONE };

/* 1: the hit is one of the limit's, over all threads and sites. */
TRAP_PATH static int grant(struct probe_region *region)
{
	uint64_t granted = atomic_get(&region->granted);

	while (granted < probes.limit)
		if (atomic_cas(&region->granted, &granted, granted + 1))
			return 1;
	return 0;
}

TRAP_PATH static enum trapline_action on_hit(const struct trapline_hit *hit)
{
	struct probe_region *region = probes.region;
	const struct probe_record_wish wish = {
		.event = (uintptr_t)hit->arg,
		.texts = probes.texts,
		.texts_bytes = probes.texts_bytes,
		.stack_bytes = probes.stack_bytes,
	};

	if (probes.limit && !grant(region)) {
		counter_add(&region->counts.rejected_limit, 1);
		return TRAPLINE_GO_ON;
	}
	int written = probe_record_write(&probes.slots, hit, &wish);
	if (region->is_trace)
		agent_trace_hit(hit);
	if (written > 0)
		counter_add(&region->counts.written, 1);
	if (written)
		return TRAPLINE_GO_ON; /* what the reader gave up, it counts itself */
	counter_add(&region->counts.lost_full, 1);
	if (probes.limit)
		atomic_add(&region->granted, (uint64_t)-1);
	return TRAPLINE_GO_ON;
}

static int is_power_of_two(uint32_t n)
{
	return n && !(n & (n - 1));
}

/* The head is the command's, and of this version; what is used as a size is looked at all the same. */
static int take_settings(struct probe_region *region)
{
	uint32_t bytes = region->slot_bytes;
	size_t used = sizeof(uint64_t) + sizeof(struct record) +
		      (size_t)__builtin_popcount(region->texts) * RECORD_TEXT_BYTES +
		      region->stack_bytes;

	if (!region->count || region->count > PROBE_SITES_MAX || !is_power_of_two(bytes) ||
	    bytes < PROBE_SLOT_MIN || bytes > PROBE_SLOT_MAX || used > bytes ||
	    (region->condition_bytes && region->condition_bytes != sizeof(struct condition)))
		return -EPROTO;
	probes.slots = (struct hit_slots){ .ring = &region->ring,
					   .slots = region->slots,
					   .slot_bytes = bytes,
					   .count = PROBE_RING_BYTES / bytes };
	probes.limit = region->limit;
	probes.texts = region->texts;
	probes.texts_bytes = (uint32_t)__builtin_popcount(region->texts) * RECORD_TEXT_BYTES;
	probes.stack_bytes = region->stack_bytes;
	probes.count = region->count;
	return 0;
}

static int open_probe(struct probe_region *region, uint32_t i,
		      const struct trapline_condition *condition)
{
	struct probe_outcome *out = &region->outcome[i];
	TRAPLINE_OPTS(event, opts);

	opts.callback = on_hit;
	opts.arg = (void *)(uintptr_t)i;
	opts.condition = condition;
	opts.flags = TRAPLINE_DISABLED;
	int err = trapline_probe(probes.self, region->sites[i], &opts, &probes.events[i]);
	out->error = err;
	if (err)
		return err;
	probes.events[i]->mirror = &region->counts;
	out->mechanism = (uint32_t)trapline_event_mechanism(probes.events[i]);
	out->evaluated_in = probes.events[i]->evaluated_in;
	return 0;
}

/* At last: what the agent itself calls until then is no hit. */
static void enable_probes(void)
{
	for (uint32_t i = 0; i < PROBE_SITES_MAX; i++)
		if (probes.events[i])
			trapline_event_enable(probes.events[i]);
}

static void close_probes(void)
{
	for (uint32_t i = 0; i < PROBE_SITES_MAX; i++)
		if (probes.events[i])
			trapline_event_close(probes.events[i]);
	memset(probes.events, 0, sizeof(probes.events));
	if (probes.self)
		trapline_close(probes.self);
	probes.self = NULL;
}

static int open_probes(struct probe_region *region)
{
	static struct trapline_condition condition;
	int opened = 0;
	int err = trapline_open(0, NULL, &probes.self);

	if (err)
		return err;
	if (region->condition_bytes)
		memcpy(&condition.ir, region->condition, sizeof(condition.ir));
	/* Events of other processes are not to be counted here. */
	if (region->condition_bytes && condition.ir.event_count)
		return -EINVAL;
	for (uint32_t i = 0; i < probes.count && !(err && region->is_whole); i++) {
		int one = open_probe(region, i, region->condition_bytes ? &condition : NULL);

		opened += !one;
		err = one ? one : err;
	}
	target_drop_descriptors(probes.self);
	return opened && !(err && region->is_whole) ? 0 : err;
}

static void explain(int err, char *why, size_t n)
{
	trapline_explain(err, why, n);
	if (err == -ENOSPC || err == -EOPNOTSUPP)
		snprintf(why + strlen(why), n - strlen(why),
			 ", and an int3 would end a thread that blocks SIGTRAP");
}

static void probe_tell_failure(struct probe_region *region, int err)
{
	char why[sizeof(region->run.why)] = "";

	explain(err, why, sizeof(why));
	memcpy(region->run.why, why, sizeof(why));
	atomic_set(&region->run.error, err);
}

static void forget_run(void)
{
	agent_trace_end();
	close_probes();
	own_stacks_end();
	kept_fd_close(&probes.lock);
}

static void drop_region(struct probe_region **region)
{
	if (*region)
		memory_unmap(*region, sizeof(**region));
	*region = NULL;
}

/* What a thread can still be at stays, until the next run. */
static void tell_end(struct probe_region *region, enum run_state state)
{
	const int is_outside = !outside_wait(OUTSIDE_MOST_NS);
	const int is_free = is_outside && !agent_trace_give();

	own_thread_opens();
	late_calls_end(is_outside);
	own_thread_shuts();
	atomic_set(&region->run.state, (uint32_t)state);
	if (is_free) {
		drop_region(&probes.last);
		drop_region(&probes.region);
	}
	atomic_set(&probes.runs, 0u);
}

static void wait_for_end(struct probe_region *region)
{
	while (kept_fd_is_ours(&probes.lock) && sys2(SYS_flock, probes.lock.fd, LOCK_EX) == -EINTR)
		;
	own_thread_opens();
	forget_run();
	own_thread_shuts();
	tell_end(region, RUN_ENDED);
}

/* 0; -ECANCELED: the command has ended before. */
static int wait_while(struct probe_region *region, enum run_state state)
{
	const struct timespec step = { 0, WAIT_STEP_NS };

	while (atomic_get(&region->run.state) == state) {
		if (!kept_fd_is_ours(&probes.lock) ||
		    !sys2(SYS_flock, probes.lock.fd, LOCK_EX | LOCK_NB))
			return -ECANCELED;
		sys_nap(&step);
	}
	return 0;
}

static int arm(struct probe_region *region)
{
	int err = zydis_open() ? -ELIBACC : take_settings(region);

	if (err)
		return err;
	hit_ring_begin(&probes.slots);
	own_stacks_prepare();
	if (region->is_trace)
		err = agent_trace_prepare(region);
	return err ? err : open_probes(region);
}

static int arm_late(struct probe_region *region)
{
	own_thread_opens();
	late_calls_look_again();
	int err = arm(region);
	if (err) {
		close_probes();
		probe_tell_failure(region, err);
		forget_run();
	} else {
		enable_probes();
		atomic_set(&region->run.state, (uint32_t)RUN_ARMED);
	}
	own_thread_shuts();
	if (err)
		tell_end(region, RUN_FAILED);
	return err;
}

/* It arms too: in the thread that was borrowed for the call, signals are blocked until it returns. */
static void *run_late(void *arg)
{
	struct probe_region *region = arg;

	own_thread_begins();
	in_code_forbid_traps();
	if (wait_while(region, RUN_NEW)) {
		forget_run();
		tell_end(region, RUN_ENDED);
	} else if (!arm_late(region)) {
		wait_for_end(region);
	}
	return NULL;
}

static void *run_started(void *arg)
{
	own_thread_begins();
	wait_for_end(arg);
	return NULL;
}

static int start_thread(void *(*run)(void *), struct probe_region *region)
{
	own_thread_prepare();
	return own_thread_start(pthread_create, STACK_BYTES, run, region);
}

/* The region is the agent's from here on. */
static int probe_begin(struct probe_region *shared, int lock)
{
	uint32_t none = 0;

	if (!atomic_cas(&probes.runs, &none, 1u))
		return -EBUSY;
	drop_region(&probes.last);
	probes.last = probes.region;
	probes.region = shared;
	kept_fd_take(&probes.lock, lock);
	return 0;
}

int agent_probe_attach(struct probe_region *shared, int lock)
{
	int err = probe_begin(shared, lock);

	if (err) {
		sys_close(lock);
		memory_unmap(shared, sizeof(*shared));
		return err;
	}
	err = start_thread(run_late, shared);
	if (err) {
		forget_run();
		atomic_set(&probes.runs, 0u);
	}
	return err;
}

/* 0, or -errno and no probe is there. */
static int arm_started(struct probe_region *region)
{
	int err = arm(region);

	if (!err)
		err = start_thread(run_started, region);
	if (!err) {
		enable_probes();
		atomic_set(&region->run.state, (uint32_t)RUN_ARMED);
		return 0;
	}
	close_probes();
	probe_tell_failure(region, err);
	atomic_set(&region->run.state, (uint32_t)RUN_FAILED);
	return err;
}

void agent_probe_start(struct probe_region *shared, int lock)
{
	uint32_t state = RUN_NEW;

	/* Another state: this is a program that the observed one started. */
	if (!atomic_cas(&shared->run.state, &state, (uint32_t)RUN_READY) ||
	    probe_begin(shared, lock)) {
		sys_close(lock);
		memory_unmap(shared, sizeof(*shared));
		return;
	}
	if (wait_while(shared, RUN_READY))
		sys1(SYS_exit_group, 1);
	/* The program may run when the command says so: with these probes, or with what it has instead. */
	if (atomic_get(&shared->run.state) == RUN_ARM && !arm_started(shared))
		return;
	if (wait_while(shared, RUN_FAILED))
		sys1(SYS_exit_group, 1);
	forget_run();
	atomic_set(&probes.runs, 0u);
}
