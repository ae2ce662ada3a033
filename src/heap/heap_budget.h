/* SPDX-License-Identifier: MIT */
/*
 * heap_budget.h - how much CPU time samples may cost.
 *
 * There are two accounts. One is for contexts: the first block of each, and fewer and fewer of its
 * later ones. The other is for all blocks alike (heap_draw.h). Neither can use up the other, and
 * contexts have a reserve.
 *
 * The cost stays below its share of the CPU time, except for an allowance: while a program is
 * young, most of its contexts are new. Half of the share pays it back. A part of the allowance
 * comes late, since a service begins when its start is over.
 *
 * A process and the children that it forks have their accounts together: a child that lives for a
 * moment has no CPU time of its own to speak of.
 */
#ifndef HEAP_BUDGET_H
#define HEAP_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "heap/heap.h"

enum heap_account {
	HEAP_FOR_CONTEXTS,
	HEAP_FOR_ALL,
	HEAP_ACCOUNTS,
};

/* family: heap_family.h. Not in a handler. */
void heap_budget_start(const struct heap_region *region, void *family);
/* In a child: the accounts are those of its parent, except for what is the CPU time of its own. */
void heap_budget_forked(void);
/*
 * What the parent's fork took for the detector's mappings; the end of the child takes as much. It
 * is stated, and nothing is left out for it: a process that forks often would get no samples.
 */
void heap_budget_add_fork(uint64_t took_ns);

/* May another sample be taken? */
bool heap_budget_affords(enum heap_account account);

/* Nothing is counted: for what is seldom. */
bool heap_budget_is_left(void);

/* What costs time is between these. */
uint64_t heap_budget_begin(void);
void heap_budget_spend(uint64_t begun, enum heap_account account);
/* For what is long, so that other threads may run in between: the start and the end. */
uint64_t heap_budget_begin_long(void);
/*
 * The start is a cost, which the share pays back. It takes nothing from what the first samples may
 * cost, up to the allowance: where page faults are slow they would find nothing.
 */
void heap_budget_spend_start(uint64_t begun);
void heap_budget_spend_long(uint64_t begun);

/* Watches have a part of their own: when it is used up they end, and samples continue. */
void heap_budget_add_watches(uint64_t ns);
/* A move of a register, which a sample makes in between: it is not a cost of the sample then. */
void heap_budget_spend_aside(uint64_t begun);
bool heap_budget_affords_watches(void);
/*
 * In a child: it has run for so long that registers, which have to be opened first, are a small
 * part of it.
 */
bool heap_budget_is_worth_opening(void);

/* Allocations and their frees, sampled or not; and those whose contexts were looked up. */
void heap_budget_add_calls(uint32_t calls, uint32_t asked);
/* A look-up took so long, with the clock. */
void heap_budget_time_ask(uint64_t took_ns);

/* The process ends, or is asked how much it has used. */
void heap_budget_end(void);

/* The sums of all processes of the accounts, as far as they stated them. */
struct heap_spent {
	uint64_t cpu_ns;
	uint64_t calls;
	uint64_t drawn_ns; /* for samples of all blocks alike */
	uint64_t left_ns;  /* that may be spent on these now */
	uint64_t share_ns; /* of the CPU time, for all */
	uint64_t ask_ns;   /* of one context that is looked up */
	uint64_t asked_ns; /* for all that were */
	uint64_t allowance_ns;
};
void heap_budget_look(struct heap_spent *out);

#endif
