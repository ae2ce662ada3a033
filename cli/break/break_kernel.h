/* SPDX-License-Identifier: MIT */
/* break_kernel.h - `trapline break` on events of the kernel: see kernel_location.h. */
#ifndef CLI_BREAK_BREAK_KERNEL_H
#define CLI_BREAK_BREAK_KERNEL_H

#include "cli/observe/observe_settings.h"

/* Is a location one of the kernel? */
bool break_kernel_is(const struct observe_settings *set);
/* Whether the run has no process: any process is observed, which is for root. */
bool break_kernel_is_everywhere(const struct observe_settings *set);

/* An exit status. */
int break_kernel_run(struct observe_settings *set);

#endif
