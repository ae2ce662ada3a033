/* SPDX-License-Identifier: MIT */
/*
 * agent_probe.c - the probes of `trapline break --mechanism probe` in the target.
 *
 * Threads of the program write their hits into the shared ring, and wait for nothing.
 */
#include "agent/agent_tools.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <trapline/code.h>
#include <trapline/condition.h>
#include <trapline/trapline.h>

#include "agent/agent_trace.h"
#include "agent/zydis.h"
#include "base/atomic.h"
#include "base/trap_path.h"
#include "cond/compile.h"
#include "core/in_code.h"
#include "core/target.h"
#include "event/event.h"
#include "guest/own_stack.h"
#include "record/layout.h"
#include "trap/probe_record.h"

#define STACK_BYTES (128u << 10)

static struct {
	struct probe_region *region;
	struct trapline *self;
	struct trapline_event *events[PROBE_SITES_MAX];
	struct hit_slots slots;
	uint64_t limit;
	uint32_t texts;
	uint32_t texts_bytes;
	uint32_t vectors;
	uint32_t stack_bytes;
	uint32_t count;
} probes;

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
		.vectors = probes.vectors,
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

/*
 * The head is the command's, and of this version; what is used as a size is inspected all the same.
 */
static int take_settings(struct probe_region *region)
{
	uint32_t bytes = region->slot_bytes;
	size_t used = sizeof(uint64_t) + sizeof(struct record) +
		      (size_t)__builtin_popcount(region->texts) * RECORD_TEXT_BYTES +
		      (size_t)region->vectors * RECORD_VECTOR_BYTES + region->stack_bytes;

	if (!region->count || region->count > PROBE_SITES_MAX || !is_power_of_two(bytes) ||
	    bytes < PROBE_SLOT_MIN || bytes > PROBE_SLOT_MAX || used > bytes ||
	    region->vectors > RECORD_VECTORS ||
	    (region->condition_bytes && region->condition_bytes != sizeof(struct condition)))
		return -EPROTO;
	probes.slots = (struct hit_slots){ .ring = &region->ring,
					   .slots = region->slots,
					   .slot_bytes = bytes,
					   .count = PROBE_RING_BYTES / bytes };
	probes.limit = region->limit;
	probes.texts = region->texts;
	probes.texts_bytes = (uint32_t)__builtin_popcount(region->texts) * RECORD_TEXT_BYTES;
	probes.vectors = region->vectors;
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

/* Last: what the agent itself calls until then is not a hit. */
static int enable_probes(void *region)
{
	for (uint32_t i = 0; i < PROBE_SITES_MAX; i++)
		if (probes.events[i])
			trapline_event_enable(probes.events[i]);
	return 0;
}

static void probe_end(void *region)
{
	agent_trace_end();
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

static int open_all(struct probe_region *region)
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

/*
 * The decoder is opened here, in the thread that was borrowed: in one of Trapline the loader's
 * malloc() would make an arena, of 64 MiB of address space, which stays.
 */
static void probe_comes(int is_late)
{
	if (is_late)
		zydis_open(); /* reports later whether it failed */
}

static int probe_arm(void *region, int is_late)
{
	struct run_words *words = &((struct probe_region *)region)->run;
	char why[sizeof(words->why)] = "";

	if (is_late)
		in_code_forbid_traps();
	probes.region = region;
	const int err = open_all(region);
	if (!err)
		return 0;
	explain(err, why, sizeof(why));
	memcpy(words->why, why, sizeof(why));
	probe_end(region);
	return err;
}

struct run agent_probe = {
	.option = "probe=",
	.magic = PROBE_MAGIC,
	.bytes = sizeof(struct probe_region),
	.flags = RUN_ASKS | RUN_FORGETS | RUN_OWN_TABLE,
	.calls = &late_calls,
	.stack_bytes = STACK_BYTES,
	.comes = probe_comes,
	.arm = probe_arm,
	.begin = enable_probes,
	.end = probe_end,
	.give = agent_trace_give,
	.lock = KEPT_FD_NONE,
};
