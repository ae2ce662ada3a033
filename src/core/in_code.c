/* SPDX-License-Identifier: MIT */
/* in_code.c - see in_code.h: which form fits the location, and the condition as machine code. */
#include "core/in_code.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "base/atomic.h"
#include "code/poke/traps.h"
#include "code/probe/code_probe.h"
#include "core/code_start.h"
#include "core/explain.h"
#include "core/in_code_filter.h"
#include "core/target.h"
#include "trap/dispatch.h"
#include "trap/probe_entry.h"
#include "trap/stack.h"
#include "trap/verdict.h"

static int are_traps_forbidden;

static int open_jump(struct trapline_event *ev, struct code_problem *problem)
{
	struct native_code code;
	uint32_t number;

	in_code_compile(ev, &code);
	/* Without traps a jump is the only way. */
	const struct code_filter filter = { code.bytes, code.length, code.true_at, NULL,
					    are_traps_forbidden };

	trap_probe_prepare();
	ev->mechanism = TRAPLINE_BY_PROBE;
	int err = code_probe_open(ev->parts[0].addr, &filter, trap_probe_entry, ev, ev->generation,
				  &number, problem);
	if (!err)
		ev->probe = number + 1;
	return err;
}

/* Sets of traps that could not be removed inside a callback. */
static struct trapline_traps *left_over[EVENT_MAX];

static void keep_for_later(struct trapline_traps *traps)
{
	for (size_t i = 0; i < EVENT_MAX; i++) {
		struct trapline_traps *none = NULL;

		if (atomic_cas(&left_over[i], &none, traps))
			return;
	}
}

static void remove_left_over(void)
{
	struct code_problem problem;

	for (size_t i = 0; i < EVENT_MAX; i++) {
		struct trapline_traps *traps = atomic_swap(&left_over[i], NULL);

		if (traps && traps_remove(traps, &problem))
			keep_for_later(traps);
	}
}

static void on_trap(const struct trapline_trap_hit *hit)
{
	struct trapline_event *ev = hit->arg;

	if (trap_enter_probe(ev, ev->first_generation, hit->context))
		trap_take_probe(hit->context);
}

static int open_trap(struct trapline_event *ev, struct code_problem *problem)
{
	const struct trapline_traps_opts opts = {
		.size = sizeof(opts),
		.callback = on_trap,
		.arg = ev,
	};

	if (ev->evaluated_in == TRAPLINE_EVALUATED_IN_CODE)
		ev->evaluated_in = TRAPLINE_EVALUATED_IN_HANDLER;
	ev->mechanism = TRAPLINE_BY_TRAP;
	return traps_set(&ev->parts[0].addr, 1, &opts, &ev->traps, problem);
}

static void find_object(struct trapline_event *ev)
{
	struct dl_find_object object;

	if (_dl_find_object((void *)(uintptr_t)ev->parts[0].addr, &object))
		return;
	ev->object_start = (uintptr_t)object.dlfo_map_start;
	ev->object_end = (uintptr_t)object.dlfo_map_end;
}

void in_code_forbid_traps(void)
{
	are_traps_forbidden = 1;
}

static int open_in_code(struct trapline_event *ev, struct code_problem *problem)
{
	const int err = open_jump(ev, problem);

	if (err != -ENOSPC && err != -EOPNOTSUPP)
		return err;
	return are_traps_forbidden ? err : open_trap(ev, problem);
}

int in_code_open(struct trapline_event *ev)
{
	struct code_problem problem = { NULL, 0 };
	int err = code_start();

	if (err)
		return err;
	if (ev->condition)
		find_object(ev);
	if (ev->stack_depth)
		stack_warm_up();
	if (ev->condition && cond_uses(ev->condition, COND_HITS_IN_THREAD) &&
	    condition_take_thread_slot(ev))
		return failed(-ENFILE, FAILED_EVENT,
			      "16 events with hits_in_thread are open in the handler");
	if (!ev->callback) {
		err = target_need_ring(ev->target, TRAPLINE_BY_PROBE);
		if (err)
			return err;
		ev->records = &ev->target->code_reader.slots;
	}
	remove_left_over();
	ev->applied = ev->wanted;
	err = open_in_code(ev, &problem);
	return err ? failed(err, FAILED_CODE, problem.why) : 0;
}

void in_code_close(struct trapline_event *ev)
{
	struct code_problem problem;

	if (ev->probe)
		code_probe_close(ev->probe - 1, &problem);
	if (ev->traps && traps_remove(ev->traps, &problem))
		keep_for_later(ev->traps);
	ev->probe = 0;
	ev->traps = NULL;
}
