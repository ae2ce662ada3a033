/* SPDX-License-Identifier: MIT */
/*
 * probe.h - tries what this kernel, user and container allow, and measures what it costs.
 *
 * Each probe and each measurement runs in a forked child of its own: a feature that
 * kills, hangs or changes signal handling does so there. Results come back in shared
 * memory, so that they survive the child. Nothing here runs on the trap path of a user's
 * events.
 */
#ifndef CHECK_PROBE_H
#define CHECK_PROBE_H

#define PROBE_TEXT_MAX 160

struct probe_result {
	int is_ok;
	int is_refused;	 /* a call that it needs was: the reason is its own */
	int is_measured; /* it is a "no" by counts that a busy machine can change */
	int is_unknown;	 /* it was not tried, or failed on a busy machine */
	char evidence[PROBE_TEXT_MAX];
	char remedy[PROBE_TEXT_MAX];
};

struct probe {
	const char *name;
	void (*try)(struct probe_result *r);
	/* 1: not run where SIGTRAP from events is known to break the kernel. */
	int uses_signal;
	/* 1: fails without a reason of its own where breakpoints do not fire. */
	int uses_registers;
};

/* measure() returns nanoseconds, or a negative number when it cannot be done here. */
struct probe_cost {
	const char *name;
	double (*measure)(void);
	int uses_signal;
};

/* The tables end with a NULL name. */
extern const struct probe probe_table[];
extern const struct probe_cost probe_cost_table[];

#endif
