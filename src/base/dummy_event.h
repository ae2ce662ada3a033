/* SPDX-License-Identifier: MIT */
/* dummy_event.h - a perf event that counts nothing: to be opened is all that it is for. */
#ifndef BASE_DUMMY_EVENT_H
#define BASE_DUMMY_EVENT_H

#include <linux/perf_event.h>

#include "base/sys.h"

/* In a thread. A descriptor of the calling thread, to be closed soon, or -errno. AS-Safe. */
static inline int dummy_event_open(pid_t tid)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.disabled = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};

	return sys_perf_event_open(&attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

#endif
