/* SPDX-License-Identifier: MIT */
/*
 * branches.h - the PMU's number for retired conditional branches.
 *
 * Only these counts are the same in each run of the same code: taken branches include interrupts,
 * instructions some of the kernel's own. perf has no name for them.
 */
#ifndef EVENT_BRANCHES_H
#define EVENT_BRANCHES_H

#include <stdint.h>

/* attr.config of PERF_TYPE_RAW. -EOPNOTSUPP: this processor's is not known. */
int branches_conditional(uint64_t *config);

#endif
