/* SPDX-License-Identifier: MIT */
/* ringbuf.h - reading a BPF ring buffer: one reader, writers in the kernel. */
#ifndef EVENT_RING_RINGBUF_H
#define EVENT_RING_RINGBUF_H

#include <stddef.h>
#include <stdint.h>

struct ringbuf {
	int fd; /* -1: not open */
	size_t bytes;
	uint64_t *consumer;
	const uint64_t *producer;
	const uint8_t *data; /* mapped twice in a row: no record is ever split */
};

int ringbuf_open(struct ringbuf *ring, size_t bytes);
void ringbuf_close(struct ringbuf *ring);

/* The oldest finished record, or NULL. It stays valid until ringbuf_release(). */
const void *ringbuf_peek(const struct ringbuf *ring, uint32_t *len);
void ringbuf_release(struct ringbuf *ring);

#endif
