/* SPDX-License-Identifier: MIT */
/*
 * race_line.c - a race as it can be described inside the program itself: no symbols and
 * no source lines, but files and addresses in them. Not in a handler.
 *
 * The line has the members of `trapline race --json` (record/race_words.h); those that need
 * symbols are null.
 * A pair of sites has a number that is the same in every run of the same build.
 */
#include "race/race_line.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/atomic.h"
#include "base/hash.h"
#include "record/race_region.h"
#include "record/race_words.h"
#include "record/text_line.h"

struct line {
	struct text_line text;
	const struct race_region *region;
};

#define PATH_BYTES ((uint32_t)sizeof(((struct race_file *)0)->path))

const char *race_file_of(const struct race_region *region, uint64_t place, uint64_t *offset)
{
	uint64_t file = place >> RACE_PLACE_BITS;

	*offset = place & RACE_PLACE_MASK;
	if (!file || file >= RACE_FILES || !atomic_get(&region->files[file].ready))
		return NULL;
	return region->files[file].path;
}

static struct race_value module_of(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return race_value_text(slash ? slash + 1 : path, PATH_BYTES);
}

static void add_members(struct line *l, const char *const *names, const void *words, size_t n);

static void add_frame(struct line *l, uint64_t place)
{
	struct race_frame_words words = { 0 };
	uint64_t offset;
	const char *path = race_file_of(l->region, place, &offset);

	words.ip = race_value_hex(offset);
	words.module = module_of(path);
	if (path)
		words.module_offset = race_value_hex(offset);
	add_members(l, race_frame_names, &words, RACE_WORDS(words));
}

static void add_stack(struct line *l, const struct race_side *side)
{
	uint32_t first = race_first_frame(side);

	text_line_add(&l->text, "[");
	for (uint32_t i = first; i < side->frame_count && i < RACE_FRAMES; i++) {
		text_line_add(&l->text, i == first ? "" : ",");
		add_frame(l, side->frames[i]);
	}
	text_line_add(&l->text, "]");
}

static void add_side(struct line *l, const struct race_side *side)
{
	struct race_side_words words = race_side_words(side);
	uint64_t offset;
	const char *path = race_file_of(l->region, side->frames[race_first_frame(side)], &offset);

	words.module = module_of(path);
	words.module_path = race_value_text(path, PATH_BYTES);
	add_members(l, race_side_names, &words, RACE_WORDS(words));
}

static void add_value(struct line *l, const struct race_value *v)
{
	int is_hex = v->kind == RACE_VALUE_HEX || v->number > INT64_MAX;

	switch (v->kind) {
	case RACE_VALUE_TEXT:
		text_line_add_quoted(&l->text, v->text, v->most);
		break;
	case RACE_VALUE_NUMBER:
	case RACE_VALUE_HEX:
		text_line_add(&l->text, is_hex ? "\"0x%" PRIx64 "\"" : "%" PRIu64, v->number);
		break;
	case RACE_VALUE_SIGNED:
		text_line_add(&l->text, "%" PRId64, (int64_t)v->number);
		break;
	case RACE_VALUE_BOOLEAN:
		text_line_add(&l->text, v->number ? "true" : "false");
		break;
	case RACE_VALUE_SIDE:
		add_side(l, v->part);
		break;
	case RACE_VALUE_STACK:
		add_stack(l, v->part);
		break;
	default: /* the library records no heap blocks */
		text_line_add(&l->text, "null");
		break;
	}
}

static void add_members(struct line *l, const char *const *names, const void *words, size_t n)
{
	const struct race_value *values = words;

	for (size_t i = 0; i < n; i++) {
		text_line_add(&l->text, "%c\"%s\":", i ? ',' : '{', names[i]);
		add_value(l, &values[i]);
	}
	text_line_add(&l->text, "}");
}

static uint64_t hash_place(const struct race_region *region, uint64_t place)
{
	uint64_t offset;
	const char *path = race_file_of(region, place, &offset);
	uint64_t hash = HASH_START ^ offset;

	for (const char *c = path ? path : ""; *c; c++)
		hash = *c == '/' ? HASH_START ^ offset : hash_add(hash, (unsigned char)*c);
	return hash * HASH_MIX ^ hash >> 29;
}

size_t race_report_line(const struct race_region *region, const struct race_record *record,
			struct race_judgement judgement, char *line, size_t n)
{
	struct line l = { { line, n, 0 }, region };
	struct race_words words = race_words(record, judgement);
	uint64_t pair = hash_place(region, record->first.frames[0]);

	if (!(record->flags & RACE_UNKNOWN_ORIGIN))
		pair += hash_place(region, record->second.frames[0]);
	words.count = race_value_number(
		record->pair < RACE_PAIRS ? atomic_get(&region->pairs[record->pair].count) : 1);
	add_members(&l, race_names, &words, RACE_WORDS(words));
	l.text.length--; /* one more member: before the end */
	text_line_add(&l.text, ",\"pair\":\"%016" PRIx64 "\"}", pair);
	return l.text.length;
}
