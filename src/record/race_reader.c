/* SPDX-License-Identifier: MIT */
/*
 * race_reader.c - reads the records of the ring in order. The writers may die at any
 * moment.
 */
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "record/race_region.h"

/* A record claimed and not written after this time never will be. */
#define TORN_AFTER_NS 500000000u

int race_read(struct race_region *r, struct race_record *out, uint64_t *torn)
{
	static uint64_t waiting_for;
	static uint64_t waiting_since_ns;
	uint64_t at = r->read_at;

	while (at != atomic_get(&r->write_at)) {
		const struct race_record *record = &r->records[at % RACE_RECORDS];
		int is_ready = atomic_get(&record->ready) == at + 1;

		if (!is_ready) {
			uint64_t now = clock_now_ns();
			if (waiting_for != at + 1) {
				waiting_for = at + 1;
				waiting_since_ns = now;
			}
			if (now - waiting_since_ns < TORN_AFTER_NS)
				return 0;
			*torn += 1;
		} else {
			memcpy(out, record, sizeof(*out));
		}
		atomic_set(&r->read_at, ++at);
		if (is_ready)
			return 1;
	}
	return 0;
}

uint64_t race_unread(const struct race_region *r)
{
	uint64_t n = atomic_get(&r->write_at) - r->read_at;

	return n < RACE_RECORDS ? n : RACE_RECORDS;
}
