/* SPDX-License-Identifier: MIT */
/* heap_ring.c - the records of heap_region.h in order. The writers may die at any moment. */
#include "record/heap_region.h"

#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"

/* A record claimed and not written after this time never will be. */
#define TORN_AFTER_NS 500000000u

struct heap_record *heap_write_begin(struct heap_region *r, uint64_t *sequence)
{
	uint64_t at = atomic_get(&r->write_at);

	do {
		if (at - atomic_get(&r->read_at) >= HEAP_RECORDS)
			return NULL;
	} while (!atomic_cas(&r->write_at, &at, at + 1));
	*sequence = at;
	return &r->records[at % HEAP_RECORDS];
}

void heap_write_end(struct heap_record *record, uint64_t sequence)
{
	atomic_set(&record->ready, sequence + 1);
}

int heap_read(struct heap_region *r, struct heap_record *out, uint64_t *torn)
{
	static uint64_t waiting_for;
	static uint64_t waiting_since_ns;
	uint64_t at = r->read_at;

	while (at != atomic_get(&r->write_at)) {
		const struct heap_record *record = &r->records[at % HEAP_RECORDS];
		int is_ready = atomic_get(&record->ready) == at + 1;
		uint64_t now = is_ready ? 0 : clock_now_ns();

		if (!is_ready && waiting_for != at + 1) {
			waiting_for = at + 1;
			waiting_since_ns = now;
		}
		if (!is_ready && now - waiting_since_ns < TORN_AFTER_NS)
			return 0;
		if (is_ready)
			memcpy(out, record, sizeof(*out));
		else
			*torn += 1;
		atomic_set(&r->read_at, ++at);
		if (is_ready)
			return 1;
	}
	return 0;
}
