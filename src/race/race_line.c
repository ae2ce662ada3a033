/* SPDX-License-Identifier: MIT */
/*
 * race_line.c - a race as it can be described inside the program itself: no symbols and
 * no source lines, but files and addresses in them. Not in a handler.
 *
 * The line has the members of `trapline race --json`; members that need symbols are null.
 * A pair of sites has a number that is the same in every run of the same build.
 */
#include "race/race_line.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/atomic.h"
#include "record/race_region.h"

struct line {
	char *at;
	size_t n;
	size_t length;
};

__attribute__((format(printf, 2, 3))) static void add(struct line *l, const char *format, ...)
{
	size_t left = l->n - l->length;
	va_list args;

	va_start(args, format);
	int n = vsnprintf(l->at + l->length, left, format, args);
	va_end(args);
	l->length += n < 0 ? 0 : (size_t)n < left ? (size_t)n : left - 1;
}

/* What is no plain character is none that a name needs: '?'. */
static void add_text(struct line *l, const char *text, size_t max)
{
	add(l, "\"");
	for (size_t i = 0; i < max && text[i]; i++)
		if (text[i] == '"' || text[i] == '\\')
			add(l, "\\%c", text[i]);
		else
			add(l, "%c", text[i] >= ' ' && text[i] <= '~' ? text[i] : '?');
	add(l, "\"");
}

const char *race_file_of(const struct race_region *region, uint64_t place, uint64_t *offset)
{
	uint64_t file = place >> RACE_PLACE_BITS;

	*offset = place & RACE_PLACE_MASK;
	if (!file || file >= RACE_FILES || !atomic_get(&region->files[file].ready))
		return NULL;
	return region->files[file].path;
}

static int met_atomics(struct race_region *region, uint64_t place)
{
	const struct race_site *site = race_find_site(region, place);

	return site && atomic_get(&site->is_atomic);
}

static int is_used_by_atomics(struct race_region *region, const struct race_record *record)
{
	return record->flags & RACE_ATOMIC_SEEN || met_atomics(region, record->place) ||
	       met_atomics(region, record->first.frames[0]) ||
	       (!(record->flags & RACE_UNKNOWN_ORIGIN) &&
		met_atomics(region, record->second.frames[0]));
}

/* Locked instructions are held by nobody, and marked where they come second. */
static int is_plain_rmw(const struct race_side *side)
{
	return side->access == RACE_READ_WRITE && side->flags & RACE_DECODED &&
	       !(side->flags & (RACE_BLOCK | RACE_LOCKED));
}

enum {
	GRADE_A,
	GRADE_B,
	GRADE_C
};

uint32_t race_grade_plain(struct race_region *region, const struct race_record *record)
{
	const struct race_side *a = &record->first;
	const struct race_side *b = &record->second;
	int no_words = race_side_is_no_word(a) + race_side_is_no_word(b);

	/* A plain store may be a lock's release, a plain load an atomic one. */
	if (b->flags & RACE_LOCKED &&
	    (!is_plain_rmw(a) || race_is_mixed(record) || !(record->flags & RACE_CHANGED)))
		return GRADE_C;
	if (is_plain_rmw(a) || is_plain_rmw(b))
		return GRADE_A;
	if (record->flags & RACE_UNKNOWN_ORIGIN && record->flags & RACE_SHARED_MAPPING)
		return GRADE_C;
	if (no_words < 2 && is_used_by_atomics(region, record))
		return GRADE_C;
	if (no_words || race_is_mixed(record))
		return GRADE_A;
	return race_who_stores_same(record) ? GRADE_C : GRADE_B;
}

static void add_place(struct line *l, const struct race_region *region, uint64_t place)
{
	uint64_t offset;
	const char *path = race_file_of(region, place, &offset);

	add(l, "\"function\":null,\"module\":");
	if (path)
		add_text(l, basename(path), sizeof(region->files[0].path));
	else
		add(l, "null");
	add(l, ",\"file\":null,\"line\":null");
}

static void add_stack(struct line *l, const struct race_region *region,
		      const struct race_side *side)
{
	uint64_t offset;

	add(l, ",\"stack\":[");
	for (uint32_t i = race_first_frame(side); i < side->frame_count && i < RACE_FRAMES; i++) {
		add(l, i == race_first_frame(side) ? "{" : ",{");
		add_place(l, region, side->frames[i]);
		if (race_file_of(region, side->frames[i], &offset))
			add(l, ",\"offset\":null,\"module_offset\":\"0x%" PRIx64 "\"}", offset);
		else
			add(l, ",\"offset\":null,\"module_offset\":null}");
	}
	add(l, "]");
}

static void add_side(struct line *l, const char *name, const struct race_region *region,
		     const struct race_side *side)
{
	static const char *const accesses[] = { "unknown", "read", "write", "read-modify-write" };

	add(l, ",\"%s\":{\"access\":\"%s\",\"locked\":%s,\"tid\":%d,\"thread\":", name,
	    accesses[side->access & 3], side->flags & RACE_LOCKED ? "true" : "false", side->tid);
	add_text(l, side->thread, sizeof(side->thread));
	add(l, ",\"ip\":\"0x%" PRIx64 "\",", side->ip);
	add_place(l, region, side->frames[race_first_frame(side)]);
	add_stack(l, region, side);
	add(l, "}");
}

static void add_number(struct line *l, const char *name, uint64_t value)
{
	/* JSON's integers end where a signed 64-bit number does. */
	add(l, value <= INT64_MAX ? ",\"%s\":%" PRIu64 : ",\"%s\":\"0x%" PRIx64 "\"", name, value);
}

static uint64_t hash_place(const struct race_region *region, uint64_t place)
{
	uint64_t offset;
	const char *path = race_file_of(region, place, &offset);
	uint64_t hash = 14695981039346656037u ^ offset;

	for (const char *c = path ? path : ""; *c; c++)
		hash = *c == '/' ? 14695981039346656037u ^ offset :
				   (hash ^ (unsigned char)*c) * 1099511628211u;
	return hash * 0x9e3779b97f4a7c15u ^ hash >> 29;
}

static const char *line_kind_of(const struct race_record *record)
{
	if (record->flags & RACE_UNKNOWN_ORIGIN)
		return "unknown-origin";
	return record->first.access & record->second.access & RACE_WRITE ? "write-write" :
									   "read-write";
}

size_t race_report_line(const struct race_region *region, const struct race_record *record,
			uint32_t grade, char *line, size_t n)
{
	struct line l = { line, n, 0 };
	int is_unknown = (record->flags & RACE_UNKNOWN_ORIGIN) != 0;
	uint64_t pair = hash_place(region, record->first.frames[0]) +
			(is_unknown ? 0 : hash_place(region, record->second.frames[0]));

	add(&l, "{\"type\":\"race\",\"grade\":\"%c\",\"kind\":\"%s\"", "ABC"[grade % 3],
	    line_kind_of(record));
	add_side(&l, "first", region, &record->first);
	if (is_unknown)
		add(&l,
		    ",\"second\":{\"access\":\"unknown\",\"locked\":false,\"tid\":null,\"thread\":null,\"ip\":null,"
		    "\"function\":null,\"module\":null,\"file\":null,\"line\":null,\"stack\":[]}");
	else
		add_side(&l, "second", region, &record->second);
	add(&l, ",\"address\":\"0x%" PRIx64 "\",\"size\":%u,\"variable\":null", record->address,
	    record->len);
	add_number(&l, "old", record->old_value);
	add_number(&l, "new", record->new_value);
	add_number(&l, "count",
		   record->pair < RACE_PAIRS ? atomic_get(&region->pairs[record->pair].count) : 1);
	add(&l, ",\"fingerprint\":null,\"pair\":\"%016" PRIx64 "\",\"pid\":%d}", pair, record->pid);
	return l.length;
}
