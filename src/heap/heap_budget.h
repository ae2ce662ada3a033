/* SPDX-License-Identifier: MIT */
/*
 * heap_budget.h - how much CPU time samples may cost.
 *
 * The cost stays below its share of the CPU time of the process, but for an allowance at the start:
 * then the contexts are new, and their first blocks are worth most. Half of the share pays the
 * allowance back.
 */
#ifndef HEAP_BUDGET_H
#define HEAP_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "heap/heap.h"

void heap_budget_start(const struct heap_settings *settings);
/* In a child: what was spent before is not its own, and it has no allowance. */
void heap_budget_forked(void);

/* May another sample be taken? If not, the thread passes some allocations before it asks again. */
bool heap_budget_affords(struct heap_thread *self);

/* What costs time stands between these. */
uint64_t heap_budget_begin(void);
void heap_budget_spend(uint64_t begun);

/* What watches cost stays apart: it ends watches, and no samples. */
void heap_budget_add_watches(uint64_t ns);
bool heap_budget_affords_watches(void);

uint64_t heap_budget_cpu_ns(void);

#endif
