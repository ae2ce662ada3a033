/* SPDX-License-Identifier: MIT */
/*
 * ringbuf.c - see ringbuf.h. Layout: Linux Documentation/bpf/ringbuf.rst (v5.8): a page with the
 * consumer position, a page with the producer position, then the data twice.
 */
#include "event/ring/ringbuf.h"

#include <errno.h>
#include <linux/bpf.h>

#include "base/ebpf.h"
#include "base/memory.h"

#define HEADER_BYTES 8

int ringbuf_open(struct ringbuf *ring, size_t bytes)
{
	int fd = ebpf_map_create(BPF_MAP_TYPE_RINGBUF, 0, 0, (uint32_t)bytes, 0);
	if (fd < 0)
		return fd;
	void *consumer = memory_map_shared(PAGE_BYTES, 1, fd, 0);
	if (memory_failed(consumer)) {
		sys_close(fd);
		return memory_error(consumer);
	}
	uint8_t *producer = memory_map_shared(PAGE_BYTES + 2 * bytes, 0, fd, PAGE_BYTES);
	if (memory_failed(producer)) {
		memory_unmap(consumer, PAGE_BYTES);
		sys_close(fd);
		return memory_error(producer);
	}
	ring->fd = fd;
	ring->bytes = bytes;
	ring->consumer = consumer;
	ring->producer = (const uint64_t *)(const void *)producer;
	ring->data = producer + PAGE_BYTES;
	return 0;
}

void ringbuf_close(struct ringbuf *ring)
{
	if (ring->fd < 0)
		return;
	memory_unmap(ring->consumer, PAGE_BYTES);
	memory_unmap((void *)(uintptr_t)ring->producer, PAGE_BYTES + 2 * ring->bytes);
	sys_close(ring->fd);
	ring->fd = -1;
}

static uint64_t aligned(uint32_t header)
{
	uint32_t len = header & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);

	return ((uint64_t)len + HEADER_BYTES + 7) & ~7ull;
}

static void advance(struct ringbuf *ring, uint64_t by)
{
	/* Pairs with the kernel's acquire of the consumer position: Trapline's reads are done. */
	__atomic_store_n(ring->consumer, *ring->consumer + by, __ATOMIC_RELEASE);
}

const void *ringbuf_peek(const struct ringbuf *ring, uint32_t *len)
{
	for (;;) {
		uint64_t at = *ring->consumer;

		if (at >= __atomic_load_n(ring->producer, __ATOMIC_ACQUIRE))
			return NULL;
		const uint8_t *entry = ring->data + (at & (ring->bytes - 1));
		/* Pairs with the kernel's exchange that clears the busy bit. */
		uint32_t header =
			__atomic_load_n((const uint32_t *)(const void *)entry, __ATOMIC_ACQUIRE);
		if (header & BPF_RINGBUF_BUSY_BIT)
			return NULL;
		if (!(header & BPF_RINGBUF_DISCARD_BIT)) {
			*len = header;
			return entry + HEADER_BYTES;
		}
		advance((struct ringbuf *)(uintptr_t)ring, aligned(header));
	}
}

void ringbuf_release(struct ringbuf *ring)
{
	const uint8_t *entry = ring->data + (*ring->consumer & (ring->bytes - 1));

	advance(ring, aligned(*(const uint32_t *)(const void *)entry));
}
