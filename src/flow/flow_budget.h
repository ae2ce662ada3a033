/* SPDX-License-Identifier: MIT */
/* flow_budget.h - the time that windows and traps may take. */
#ifndef FLOW_FLOW_BUDGET_H
#define FLOW_FLOW_BUDGET_H

#include <stdint.h>

#include "record/flow_region.h"

/* What windows and traps took, by its counter. */
void flow_spend(enum flow_counter counter, uint64_t ns);
/* In a forked child, which has no thread of Trapline, the trap itself inspects the budget. */
void flow_budget_trap(void);
/* The budget of a child is its own. Once in a process. */
void flow_budget_start(void);
/* Now and then, by a thread of Trapline; passed_ns: since the last time. */
void flow_budget_tick(uint64_t passed_ns);
/* Time that a window may take now; not above 0: it has to wait. */
int64_t flow_budget_left(void);

#endif
