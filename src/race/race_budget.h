/* SPDX-License-Identifier: MIT */
/* race_budget.h - how much the search may cost, and how long each stall lasts. */
#ifndef RACE_BUDGET_H
#define RACE_BUDGET_H

#include <stdint.h>
#include <sys/types.h>

#include "record/race_region.h"

/*
 * The cost of a stall: none is shorter, and that of a busy site is about twice as long as HOT at
 * most.
 */
#define RACE_DELAY_MIN_NS 60000u
#define RACE_DELAY_HOT_NS 50000u

void race_budget_start(void);
/*
 * From a thread of Trapline, from time to time: the clock ticks where there is something to spend.
 * is_last: it will not look again. Not beside race_end().
 */
void race_budget_look(uint64_t now_ns, int is_last);
/* May a thread be stalled now? */
int race_budget_allows(uint64_t now_ns);
uint64_t race_budget_left(uint64_t now_ns);
/* How long until a thread may be stalled, at best; 0: now. */
uint64_t race_budget_wait_ns(uint64_t now_ns);
/* is_in_thread: CPU time of the caller. */
void race_budget_spend(uint64_t ns, int is_in_thread);
/*
 * For sites that are multiplexed: CPU time of the caller that goes to them; and what they may still
 * spend, below 0 what they owe.
 */
void race_budget_spend_on_sites(uint64_t ns);
int64_t race_budget_sites_left(uint64_t now_ns);
/*
 * A breakpoint of the threads is written into a register at each switch to one of them. Switches so
 * far; and what those since then cost.
 */
uint64_t race_budget_switches(void);
uint64_t race_budget_switches_ns(uint64_t since);
/* May a thread be stalled in code that is seldom reached? It may owe something for it. */
int race_budget_allows_cold(uint64_t now_ns);
struct race_stall_cost {
	uint64_t asked_ns;
	uint64_t waited_ns;
	uint64_t alone_ns;  /* race_budget_stall_ends() */
	uint64_t cpu_ns;    /* used by the stalled thread, */
	uint64_t others_ns; /* and by all others during the stall */
	int is_trapped;	    /* at a site */
};
/*
 * Before and after a thread is stalled. The second states how much of its time no other stall pays
 * for.
 */
void race_budget_stall_begins(uint64_t now_ns);
uint64_t race_budget_stall_ends(uint64_t now_ns);
void race_budget_stalled(const struct race_stall_cost *cost);
/* `spot`: where it is trapped; or NULL. */
struct race_spot;
uint64_t race_delay_ns(const struct race_site *site, const struct race_spot *spot, uint64_t now_ns);
int race_is_alone(uint64_t now_ns);
/* The threads as they are now, without Trapline's own; 0: unknown. */
uint32_t race_count_threads(void);
uint64_t race_process_cpu_ns(void);
/* What others used since then, of which own_ns is the caller's; 0: no strategy asks. */
uint64_t race_others_cpu_ns(uint64_t since_ns, uint64_t own_ns);
uint64_t race_thread_cpu_ns(void);
/* The CPU time of another thread of this process; 0: it has ended. */
uint64_t race_cpu_ns_of(pid_t tid);

#endif
