/* SPDX-License-Identifier: MIT */
/*
 * race_writer.c - see race_region.h. Runs in handlers of many threads and processes at once.
 *
 * Rules: 1. A row is claimed by a compare-and-exchange on one word; only rows of
 * processes are ever released. 2. The contents of a row are written before its word
 * `ready`, which readers check first.
 */
#include <stddef.h>

#include "base/atomic.h"
#include "base/hash.h"
#include "record/race_region.h"

#define PROBES_MAX 64u
#define SITE_PROBES_MAX 1024u
/* So many bytes of code, and their sites. */
#define BLOCK_BITS 9u
#define BLOCK_ENTRIES 64u

static uint64_t mix(uint64_t x)
{
	x ^= x >> 31;
	x *= HASH_MIX;
	x ^= x >> 29;
	x *= 0xbf58476d1ce4e5b9u;
	return x ^ x >> 32;
}

struct race_record *race_write_begin(struct race_region *r, uint64_t *sequence)
{
	uint64_t at = atomic_get(&r->write_at);

	do {
		if (at - atomic_get(&r->read_at) >= RACE_RECORDS)
			return NULL;
	} while (!atomic_cas(&r->write_at, &at, at + 1));
	*sequence = at;
	return &r->records[at % RACE_RECORDS];
}

void race_write_end(struct race_record *record, uint64_t sequence)
{
	atomic_set(&record->ready, sequence + 1);
}

/* Rows of processes that are dead are given back by the command, zeroed. */
struct race_process *race_add_process(struct race_region *r, int32_t pid)
{
	uint64_t first = atomic_add(&r->process_count, 1u);

	for (uint64_t i = 0; i < RACE_PROCESSES; i++) {
		struct race_process *p = &r->processes[(first + i) % RACE_PROCESSES];
		uint32_t state = RACE_PROCESS_FREE;

		if (!atomic_cas(&p->state, &state, (uint32_t)RACE_PROCESS_TAKEN))
			continue;
		p->pid = pid;
		p->run = r->run;
		atomic_set(&p->state, (uint32_t)RACE_PROCESS_LIVE);
		return p;
	}
	counter_add(&r->lost_processes, 1u);
	return NULL;
}

static uint64_t hash_path(const char *path)
{
	uint64_t hash = hash_text(HASH_START, path);

	return hash ? hash : 1;
}

/* Row 0 is never used: file 0 of a location means none. */
int race_add_file(struct race_region *r, const char *path)
{
	uint64_t hash = hash_path(path);

	for (uint32_t n = 0; n < PROBES_MAX; n++) {
		uint32_t at = 1 + (uint32_t)((hash + n) % (RACE_FILES - 1));
		struct race_file *f = &r->files[at];
		uint64_t held = atomic_get(&f->hash);

		if (held == hash)
			return (int)at;
		if (held || !atomic_cas(&f->hash, &held, hash)) {
			if (held == hash)
				return (int)at;
			continue;
		}
		for (size_t i = 0; path[i] && i < sizeof(f->path) - 1; i++)
			f->path[i] = path[i];
		atomic_set(&f->ready, 1u);
		return (int)at;
	}
	return -1;
}

/* Locations that are close to each other are on one page. */
static uint64_t first_entry(uint64_t place)
{
	return mix(place >> BLOCK_BITS) * BLOCK_ENTRIES + (place >> 3) % BLOCK_ENTRIES;
}

/* *free: the entry where it would be; RACE_SITE_INDEX: all are taken. */
static struct race_site *find_site(struct race_region *r, uint64_t place, uint32_t *free)
{
	uint64_t first = first_entry(place);

	*free = RACE_SITE_INDEX;
	for (uint32_t n = 0; n < SITE_PROBES_MAX; n++) {
		uint32_t at = (uint32_t)((first + n) % RACE_SITE_INDEX);
		uint32_t row = atomic_get(&r->site_index[at]);

		if (!row) {
			*free = at;
			return NULL;
		}
		if (row <= RACE_SITES && atomic_get(&r->sites[row - 1].place) == place)
			return &r->sites[row - 1];
	}
	return NULL;
}

/* Rows that two threads ask for at once are lost except for one. */
struct race_site *race_add_site(struct race_region *r, uint64_t place)
{
	uint32_t at;
	struct race_site *site = find_site(r, place, &at);

	if (site || at == RACE_SITE_INDEX || atomic_get(&r->site_count) >= RACE_SITES)
		return site;
	uint32_t row = atomic_add(&r->site_count, 1u);
	if (row >= RACE_SITES)
		return NULL;
	atomic_set(&r->sites[row].place, place);
	do {
		uint32_t none = 0;

		if (atomic_cas(&r->site_index[at], &none, row + 1))
			return &r->sites[row];
		site = find_site(r, place, &at);
	} while (!site && at != RACE_SITE_INDEX);
	atomic_set(&r->sites[row].place, (uint64_t)0);
	return site;
}

struct race_site *race_find_site(struct race_region *r, uint64_t place)
{
	uint32_t at;

	return find_site(r, place, &at);
}

uint32_t race_add_pair(struct race_region *r, uint64_t first_place, uint64_t second_place)
{
	/* The same, no matter which of the two was stalled. */
	uint64_t key = mix(first_place + 1) + mix(second_place + 1);

	key = key ? key : 1;
	for (uint32_t n = 0; n < PROBES_MAX; n++) {
		uint32_t at = (uint32_t)((key + n) % RACE_PAIRS);
		uint64_t held = atomic_get(&r->pairs[at].key);

		if (held == key)
			return at;
		if (!held && (atomic_cas(&r->pairs[at].key, &held, key) || held == key))
			return at;
	}
	return RACE_PAIRS;
}
