/* SPDX-License-Identifier: MIT */
/* cpu_ring.c - see cpu_ring.h. */
#include "event/ring/cpu_ring.h"

#include <errno.h>

#include "base/sys.h"

int cpu_ring_open(struct cpu_ring *ring, struct perf_event_attr *attr, pid_t pid, int cpu,
		  size_t bytes)
{
	attr->size = sizeof(*attr);
	attr->type = PERF_TYPE_SOFTWARE;
	attr->config = PERF_COUNT_SW_DUMMY;
	int fd = sys_perf_event_open(attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd == -ENODEV)
		return 0;
	if (fd < 0)
		return fd;
	void *page = memory_map_shared(PAGE_BYTES + bytes, 1, fd, 0);
	if (memory_failed(page)) {
		sys_close(fd);
		return memory_error(page) == -EPERM ? -ENOBUFS : memory_error(page);
	}
	ring->fd = fd;
	ring->page = page;
	return 0;
}

void cpu_ring_close(struct cpu_ring *ring, size_t bytes)
{
	if (ring->fd < 0)
		return;
	memory_unmap(ring->page, PAGE_BYTES + bytes);
	sys_close(ring->fd);
	ring->fd = -1;
}
