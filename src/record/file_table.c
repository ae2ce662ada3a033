/* SPDX-License-Identifier: MIT */
/*
 * file_table.c - see file_table.h. Runs in handlers of many threads and processes at once.
 *
 * A row is claimed by a compare-and-exchange of its hash, filled, and then ready.
 */
#include "record/file_table.h"

#include <stddef.h>

#include "base/atomic.h"
#include "base/hash.h"

#define PROBES_MAX 64u

static uint64_t hash_of(const char *path)
{
	uint64_t hash = hash_text(HASH_START, path);

	return hash ? hash : 1;
}

int file_table_add(struct file_row *rows, uint32_t count, const char *path)
{
	uint64_t hash = hash_of(path);

	for (uint32_t n = 0; n < PROBES_MAX; n++) {
		uint32_t at = 1 + (uint32_t)((hash + n) % (count - 1));
		struct file_row *row = &rows[at];
		uint64_t held = 0;

		if (atomic_cas(&row->hash, &held, hash)) {
			for (size_t i = 0; path[i] && i < sizeof(row->path) - 1; i++)
				row->path[i] = path[i];
			atomic_set(&row->ready, 1u);
			return (int)at;
		}
		if (held == hash)
			return (int)at;
	}
	return -1;
}
