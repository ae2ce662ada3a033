/* SPDX-License-Identifier: MIT */
/* run_cost.c - see run_cost.h. */
#include "cli/observe/run_cost.h"

#include "base/atomic.h"
#include "cli/observe/observe.h"
#include "report/lang/condition_names.h"

#define KNOWN_HITS 100 /* from this many hits on it is known which kind of site is hit how often */

/* Above what was seen in emulated machines. */
static const double run_cost_guess[COST_KINDS] = {
	[COST_WATCH] = 40000,	     [COST_EMULATED] = 5000,	  [COST_STEPPED] = 60000,
	[COST_HARDWARE] = 40000,     [COST_PROBE_CODE] = 100,	  [COST_PROBE_HANDLER] = 1000,
	[COST_PROBE_MEMORY] = 10000, [COST_PROBE_RECORD] = 10000, [COST_KERNEL] = 3000,
};

double run_cost_ns(struct observe *o, enum cost_kind kind)
{
	struct run_cost *p = &o->cost;

	if (!p->is_measured[kind])
		p->ns[kind] = cost_ns(&o->set, kind);
	p->is_measured[kind] = true;
	return p->ns[kind];
}

/* What was not measured, or could not be. */
static double run_cost_known(const struct observe *o, enum cost_kind kind)
{
	const struct run_cost *p = &o->cost;

	return p->is_measured[kind] && p->ns[kind] >= 0 ? p->ns[kind] : run_cost_guess[kind];
}

/* Machine code reads nothing but the stack: the interpreter does the rest. */
static enum cost_kind rejection_kind(const struct observe *o)
{
	return condition_reads_memory(o->condition) ? COST_PROBE_MEMORY : COST_PROBE_HANDLER;
}

double run_cost_of_rejection(struct observe *o)
{
	bool is_code = o->calls_end->is_in_code && !condition_reads_memory(o->condition);

	return run_cost_ns(o, is_code ? COST_PROBE_CODE : rejection_kind(o));
}

void run_cost_measure(struct observe *o)
{
	const struct run_calls_end *sites = o->calls_end;

	o->cost.is_ready = true;
	if (!sites) {
		run_cost_ns(o, COST_WATCH);
		return;
	}
	if (o->counts) {
		run_cost_ns(o, rejection_kind(o));
		run_cost_ns(o, COST_PROBE_RECORD);
		return;
	}
	if (sites->emulated)
		run_cost_ns(o, COST_EMULATED);
	if (sites->stepped)
		run_cost_ns(o, COST_STEPPED);
	if (sites->hardware)
		run_cost_ns(o, COST_HARDWARE);
}

/* For a uprobe, sites of both kinds are weighted by the hits that were printed. */
static double uprobe_ns(const struct observe *o)
{
	const struct run_calls_end *sites = o->calls_end;
	double emulated = run_cost_known(o, COST_EMULATED);
	double stepped = run_cost_known(o, COST_STEPPED);
	/* A call was measured with its return, and each of the two is a hit. */
	double parts = o->set.ret ? 2 : 1;
	uint64_t hits[2] = { 0, 0 };

	if (!sites->stepped || !sites->emulated)
		return (sites->stepped ? stepped : emulated) / parts;
	for (size_t i = 0; o->calls->sums && i < o->calls->site_count; i++)
		hits[o->calls->site[i].is_emulated] += o->calls->sums[i].hits;
	if (hits[0] + hits[1] < KNOWN_HITS)
		return stepped / parts;
	return (emulated * (double)hits[1] + stepped * (double)hits[0]) /
	       (double)(hits[0] + hits[1]) / parts;
}

/* The target counts these itself; a wrong count makes the run rest for nothing. */
static double probes_spent_ns(const struct observe *o)
{
	uint64_t taken = atomic_get(&o->counts->taken);
	uint64_t rejected = atomic_get(&o->counts->rejected_condition);

	rejected = rejected < taken ? rejected : taken;
	return (double)rejected * run_cost_known(o, rejection_kind(o)) +
	       (double)(taken - rejected) * run_cost_known(o, COST_PROBE_RECORD);
}

double run_cost_spent_ns(void *observe)
{
	const struct observe *o = observe;
	double sum = 0;

	if (o->counts)
		return probes_spent_ns(o);
	for (size_t i = 0; i < o->event_count; i++) {
		struct trapline_stats st = { .size = sizeof(st) };

		if (trapline_event_stats(o->events[i], &st) < 0)
			continue;
		double hits = (double)(st.taken + st.while_off);
		if (trapline_event_mechanism(o->events[i]) == TRAPLINE_BY_UPROBE)
			sum += hits * uprobe_ns(o);
		else if (trapline_event_mechanism(o->events[i]) == TRAPLINE_BY_TRACEPOINT)
			sum += hits * run_cost_known(o, COST_KERNEL);
		else
			sum += hits * run_cost_known(o, o->calls_end ? COST_HARDWARE : COST_WATCH);
	}
	return sum;
}
