/* SPDX-License-Identifier: MIT */
/*
 * patrol_account.h - what the patrol costs this machine, and what it may cost.
 *
 * Credit grows with time, by the budget, up to that of ten minutes. What is spent is taken from it:
 * the CPU time of the patrol and of its children, and what a tool costs the process that it
 * visits. A visit begins when there is credit for its cost, and ends early where it has used up
 * more than that.
 */
#ifndef CLI_PATROL_PATROL_ACCOUNT_H
#define CLI_PATROL_PATROL_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

#define ACCOUNT_MINUTES 60

struct patrol_account {
	double rate; /* nanoseconds of CPU a nanosecond */
	double cpus;
	double most;	  /* credit, in nanoseconds of CPU */
	double credit;	  /* below 0: more was spent than allowed */
	uint64_t last_ns; /* when credit grew last */
	uint64_t own_ns;  /* CPU time of this process and its ended children, at that time */
	double spent[ACCOUNT_MINUTES]; /* in each of the last minutes */
	uint64_t minute;
	uint64_t started_ns;
	double total; /* since the start */
};

void patrol_account_start(struct patrol_account *a, double budget_percent, uint64_t now_ns);
/* To be called several times a second: time has passed, and this process has used CPU time. */
void patrol_account_step(struct patrol_account *a, uint64_t now_ns);
/* Below 0: it was taken before, as an estimate that was too high. */
void patrol_account_spend(struct patrol_account *a, double ns);
/* There is credit for a visit of this cost, or as much as there can be. */
bool patrol_account_has(const struct patrol_account *a, double ns);
/* Percent of the CPUs, in the last hour or since the start. */
double patrol_account_share(const struct patrol_account *a, uint64_t now_ns);

#endif
