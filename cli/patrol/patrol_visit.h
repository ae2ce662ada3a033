/* SPDX-License-Identifier: MIT */
/*
 * patrol_visit.h - one visit: a child that runs a tool in one process, what it finds and costs.
 *
 * A child that is killed leaves the process as it was: that is the promise of each tool.
 */
#ifndef CLI_PATROL_PATROL_VISIT_H
#define CLI_PATROL_PATROL_VISIT_H

#include "cli/patrol/patrol_account.h"
#include "cli/patrol/patrol_process.h"
#include "cli/service/child.h"

enum patrol_end {
	PATROL_END_TIME,    /* the time of the rule is over */
	PATROL_END_STOP,    /* `trapline patrol stop`, or the patrol ended */
	PATROL_END_LOAD,    /* the load was high */
	PATROL_END_BUDGET,  /* it cost more than there was credit for */
	PATROL_END_TARGET,  /* the process has ended */
	PATROL_END_REFUSED, /* with a reason */
	PATROL_END_FAILED,  /* the child ended by itself, or did not end in time */
	PATROL_ENDS,
};

struct patrol_visit {
	bool runs;
	uint64_t number; /* of this patrol, over restarts */
	struct patrol_process who;
	const struct patrol_rule *rule;
	enum patrol_tool tool;
	const char *point;
	char build_id[64];
	double began; /* seconds of the epoch */
	uint64_t began_ns;
	struct child child;
	enum patrol_end asked; /* why it was asked to end; TIME: it was not */
	enum patrol_end end;
	char reason[PATROL_REASON_BYTES];
	json_t *summary;
	uint64_t findings;
	uint64_t lines_lost; /* findings that were too long to be read */
	uint64_t child_ns;   /* CPU time of the child, as far as it was charged */
	uint64_t target_from_ns;
	double target_ns; /* cost in the process, as far as it was charged */
	double cost_ns;	  /* of all, when it has ended */
	void (*on_finding)(void *arg, json_t *finding);
	void *arg;
};

const char *patrol_end_name(enum patrol_end end);

/* What a visit of this turn may cost, before it is known. */
double patrol_visit_expected_ns(const struct patrol_rule *rule);

/* turn, rule and point stay. 0 or -errno. */
int patrol_visit_begin(struct patrol_visit *v, const struct patrol_turn *turn,
		       const struct patrol_rule *rule, double now);
/* Reads what it prints, and charges what it costs. True: it has ended, and end has why. */
bool patrol_visit_step(struct patrol_visit *v, struct patrol_account *a);
/* Asks it to end; to be called again until it has. */
void patrol_visit_stop(struct patrol_visit *v, enum patrol_end why);
void patrol_visit_release(struct patrol_visit *v);

#endif
