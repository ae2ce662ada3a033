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

void heap_budget_start(const struct heap_region *region);
/* In a child: what was spent before is not its own, and it has no allowance. */
void heap_budget_forked(void);

/* May another sample be taken? If not, the thread passes some allocations before it asks again. */
bool heap_budget_affords(struct heap_thread *self);

/* What costs time stands between these. */
uint64_t heap_budget_begin(void);
void heap_budget_spend(uint64_t begun);
/* Of what is long, so that other threads may run in between: the start and the end. */
uint64_t heap_budget_begin_long(void);
void heap_budget_spend_long(uint64_t begun);

/* Watches have a part of their own: when it is used up they end, and samples go on. */
void heap_budget_add_watches(uint64_t ns);
/* A move of a register, which a sample makes in between: it is no cost of the sample then. */
void heap_budget_spend_aside(uint64_t begun);
bool heap_budget_affords_watches(void);

/* Allocations and their frees, sampled or not: what it costs to ask which. */
void heap_budget_add_calls(uint32_t calls);

uint64_t heap_budget_cpu_ns(void);

#endif
