/* SPDX-License-Identifier: MIT */
/*
 * probe_fires.c - whether a hardware breakpoint fires at all.
 *
 * Some hypervisors and emulators accept what is written into the debug registers, and ignore it:
 * the kernel then opens a breakpoint, and each of its hits is lost in silence.
 */
#include <linux/hw_breakpoint.h>
#include <unistd.h>

#include "base/atomic.h"
#include "check/probe_fires.h"
#include "check/probe_util.h"

enum {
	UNKNOWN,
	FIRES,
	IS_SILENT
};

int probe_breakpoints_fire(void)
{
	static volatile uint64_t word __attribute__((aligned(8)));
	static uint32_t answer;
	struct perf_event_attr attr;

	if (atomic_get(&answer) != UNKNOWN)
		return atomic_get(&answer) == FIRES;
	probe_attr_counting(&attr, &word, HW_BREAKPOINT_W, sizeof(word));
	int fd = probe_open(&attr, 0, -1);
	if (fd < 0)
		return 1; /* the open of the event itself gives the reason */
	word++;
	int fires = probe_count(fd) > 0;
	close(fd);
	atomic_set(&answer, fires ? FIRES : IS_SILENT);
	return fires;
}
