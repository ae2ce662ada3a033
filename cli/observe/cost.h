/* SPDX-License-Identifier: MIT */
/* cost.h - what one hit costs the thread that makes it, on this machine. */
#ifndef CLI_OBSERVE_COST_H
#define CLI_OBSERVE_COST_H

#include "cli/observe/observe_settings.h"

enum cost_kind {
	COST_WATCH,
	COST_EMULATED,	    /* a uprobe on an instruction that the kernel emulates */
	COST_STEPPED,	    /* a uprobe on another one */
	COST_HARDWARE,	    /* a breakpoint */
	COST_PROBE_CODE,    /* a probe whose machine code rejects the hit */
	COST_PROBE_HANDLER, /* the same by the interpreter */
	COST_PROBE_MEMORY,  /* the same, of a condition that reads memory */
	COST_PROBE_RECORD,  /* a hit of a probe that is recorded */
	COST_KERNEL,	    /* an event of the kernel: not measured */
	COST_KINDS
};

/*
 * Forks a child that arms an event on itself with these settings, and hits it many times. Returns
 * the median in ns, or a negative number if it could not be measured. The child has a deadline, so
 * that a summary does not wait for it.
 */
double cost_ns(const struct observe_settings *set, enum cost_kind kind);

#endif
