/* SPDX-License-Identifier: MIT */
/*
 * cpu_ring.h - one ring of records that the kernel writes on one CPU, kept by a dummy event.
 *
 * The event never fires. bytes is the size of the ring, a power of 2.
 */
#ifndef EVENT_RING_CPU_RING_H
#define EVENT_RING_CPU_RING_H

#include <linux/perf_event.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "base/memory.h"

struct cpu_ring {
	int fd; /* -1: CPU offline */
	struct perf_event_mmap_page *page;
};

/*
 * attr gets its size, type and config here. 0, also if there is no such CPU now; -ENOBUFS: no more
 * memory may be locked.
 */
int cpu_ring_open(struct cpu_ring *ring, struct perf_event_attr *attr, pid_t pid, int cpu,
		  size_t bytes);
void cpu_ring_close(struct cpu_ring *ring, size_t bytes);

/* n bytes from a location on, which may wrap. */
static inline void cpu_ring_copy(const struct cpu_ring *ring, size_t bytes, uint64_t from, void *to,
				 size_t n)
{
	const uint8_t *data = (const uint8_t *)ring->page + PAGE_BYTES;
	size_t at = from & (bytes - 1);
	size_t first = n < bytes - at ? n : bytes - at;

	memcpy(to, data + at, first);
	memcpy((uint8_t *)to + first, data, n - first);
}

static inline void cpu_ring_advance(struct cpu_ring *ring, uint64_t to)
{
	/* Pairs with the kernel's read of data_tail before it writes over that space. */
	__atomic_store_n(&ring->page->data_tail, to, __ATOMIC_RELEASE);
}

/* Where the kernel writes next. */
static inline uint64_t cpu_ring_head(const struct cpu_ring *ring)
{
	/* Pairs with the kernel's store of data_head after the record. */
	return __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
}

#endif
