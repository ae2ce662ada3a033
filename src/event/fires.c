/* SPDX-License-Identifier: MIT */
/*
 * fires.c - see fires.h.
 *
 * A breakpoint event of the calling thread counts a write. It sends no signal, so it works in a
 * thread that blocks SIGTRAP, and before a handler is there.
 */
#include "event/fires.h"

#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <stdint.h>

#include "base/own_fd.h"
#include "base/sys.h"

int event_register_fires(void)
{
	volatile uint64_t word = 0;
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(attr),
		.bp_type = HW_BREAKPOINT_W,
		.bp_addr = (uintptr_t)&word,
		.bp_len = sizeof(word),
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	uint64_t writes = 0;
	int fd = own_fd_keep(SYS_perf_event_open, (long)(uintptr_t)&attr, sys_gettid(), -1, -1,
			     PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		return 1;
	word = 1;
	long n = sys_read(fd, &writes, sizeof(writes));
	sys_close(fd);
	return n != (long)sizeof(writes) || writes;
}
