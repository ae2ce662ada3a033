// SPDX-License-Identifier: MIT
/* watch_cost.c - measures the cost of a hit in a child that watches a variable of its own. */
#include "cli/observe/cost.h"
#include "cli/watch/watch.h"

static volatile uint64_t victim;

static int watch_cost_prepare(const void *arg)
{
	const struct watch_settings *set = arg;
	TRAPLINE_OPTS(open, open_opts);
	TRAPLINE_OPTS(event, opts);
	struct trapline_event *event;
	struct trapline *t;

	open_opts.flags = set->no_bpf ? TRAPLINE_NO_BPF : 0;
	opts.flags = set->stack ? TRAPLINE_STACK_BYTES : 0;
	int err = trapline_open(0, &open_opts, &t);
	if (err < 0)
		return err;
	return trapline_watch(t, (uintptr_t)&victim, sizeof(victim), TRAPLINE_WRITE, &opts, &event);
}

static void write_victim(void)
{
	victim++;
}

double watch_cost_ns(const struct watch_settings *set)
{
	return cost_ns(watch_cost_prepare, write_victim, set);
}
