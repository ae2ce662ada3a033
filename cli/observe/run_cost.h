/* SPDX-License-Identifier: MIT */
/* run_cost.h - what the hits of a run have cost the target. */
#ifndef CLI_OBSERVE_RUN_COST_H
#define CLI_OBSERVE_RUN_COST_H

#include "cli/observe/cost.h"

struct observe;

/* By enum cost_kind, in ns of a hit. */
struct run_cost {
	double ns[COST_KINDS];
	bool is_measured[COST_KINDS];
	bool is_ready; /* what the run uses is measured */
};

/* Measured once, which takes some milliseconds. Negative: it could not be measured. */
double run_cost_ns(struct observe *o, enum cost_kind kind);
/* What a call costs that the condition of a probe rejects. */
double run_cost_of_rejection(struct observe *o);
/* Measures what the run uses. */
void run_cost_measure(struct observe *o);
/*
 * The CPU time in ns that all hits have cost so far. Before run_cost_measure() it is an estimate
 * that is too high on any machine.
 */
double run_cost_spent_ns(void *observe);

#endif
