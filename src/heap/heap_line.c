/* SPDX-License-Identifier: MIT */
/*
 * heap_line.c - see heap_line.h: no symbols and no source lines, but files and addresses in them.
 */
#include "heap/heap_line.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/atomic.h"
#include "record/text_line.h"

struct line {
	struct text_line text;
	const struct heap_region *region;
};

static void add_text(struct line *l, const char *name, const char *text)
{
	text_line_add(&l->text, "\"%s\":%s", name, text ? "" : "null");
	if (text)
		text_line_add_quoted(&l->text, text, SIZE_MAX);
}

const char *heap_file_of(const struct heap_region *region, uint64_t place, uint64_t *offset)
{
	uint64_t file = place >> FILE_PLACE_BITS;

	*offset = place & FILE_PLACE_MASK;
	if (!file || file >= HEAP_FILES || !atomic_get(&region->files[file].ready))
		return NULL;
	return region->files[file].path;
}

static void add_hex(struct line *l, const char *name, int is_known, uint64_t value)
{
	text_line_add(&l->text, is_known ? ",\"%s\":\"0x%" PRIx64 "\"" : ",\"%s\":null", name,
		      value);
}

static void add_number(struct line *l, const char *name, int is_known, int64_t value)
{
	text_line_add(&l->text, is_known ? ",\"%s\":%" PRId64 : ",\"%s\":null", name, value);
}

static void add_frame(struct line *l, uint64_t place)
{
	uint64_t offset;
	const char *path = heap_file_of(l->region, place, &offset);
	const char *slash = path ? strrchr(path, '/') : NULL;

	text_line_add(&l->text, "{\"ip\":\"0x%" PRIx64 "\",", offset);
	add_text(l, "module", slash ? slash + 1 : path);
	add_hex(l, "module_offset", path != NULL, offset);
	text_line_add(&l->text, "}");
}

/* The rest of an object that has begun. */
static void add_moment(struct line *l, const struct heap_moment *m)
{
	const int is_known = m->time_ns != 0;

	text_line_add(&l->text, is_known ? "\"tid\":%" PRId32 : "\"tid\":null", m->tid);
	add_number(l, "time_ns", is_known, (int64_t)m->time_ns);
	text_line_add(&l->text, ",\"stack\":[");
	for (uint32_t i = 0; i < m->frame_count && i < HEAP_FRAMES; i++) {
		text_line_add(&l->text, i ? "," : "");
		add_frame(l, m->frames[i]);
	}
	text_line_add(&l->text, "]}");
}

static void add_moment_of_block(struct line *l, const char *name, const struct heap_moment *m)
{
	text_line_add(&l->text, m->time_ns ? ",\"%s\":{" : ",\"%s\":null", name);
	if (m->time_ns)
		add_moment(l, m);
}

static void add_block(struct line *l, const struct heap_record *record)
{
	const int is_known = record->block != 0;

	if (!is_known && !record->alloc.time_ns && !record->freed.time_ns) {
		text_line_add(&l->text, ",\"block\":null");
		return;
	}
	text_line_add(&l->text,
		      is_known ? ",\"block\":{\"address\":\"0x%" PRIx64 "\"" :
				 ",\"block\":{\"address\":null",
		      record->block);
	add_number(l, "size", is_known, (int64_t)record->block_size);
	add_number(l, "offset", is_known, (int64_t)(record->address - record->block));
	add_moment_of_block(l, "allocated", &record->alloc);
	add_moment_of_block(l, "freed", &record->freed);
	text_line_add(&l->text, "}");
}

size_t heap_report_line(const struct heap_region *region, const struct heap_record *record,
			char *text, size_t n)
{
	static const char *const kinds[HEAP_KINDS] = {
		[HEAP_USE_AFTER_FREE] = "use-after-free", [HEAP_DOUBLE_FREE] = "double-free",
		[HEAP_INVALID_FREE] = "invalid-free",	  [HEAP_OVERFLOW] = "overflow",
		[HEAP_UNDERFLOW] = "underflow",		  [HEAP_CORRUPTION] = "corruption",
	};
	static const char *const accesses[] = { "free", "read", "write" };
	const struct heap_moment *when = record->first.time_ns ? &record->first : &record->freed;
	const char *message = record->message[0] ? record->message : NULL;
	struct line l = { { text, n, 0 }, region };

	text_line_add(&l.text, "{\"type\":\"heap\",");
	add_text(&l, "kind", kinds[record->kind % HEAP_KINDS]);
	text_line_add(&l.text, ",\"grade\":\"%s\",\"count\":1,\"pid\":%" PRId32,
		      record->grade ? "B" : "A", record->pid);
	add_number(&l, "time_ns", when->time_ns != 0, (int64_t)when->time_ns);
	text_line_add(&l.text, ",\"first\":{");
	add_text(&l, "access", accesses[record->access % 3u]);
	text_line_add(&l.text, ",\"in_system_call\":%s,",
		      record->in_system_call ? "true" : "false");
	add_moment(&l, &record->first);
	add_hex(&l, "address", !message, record->address);
	add_number(&l, "size", record->size != 0, (int64_t)record->size);
	add_block(&l, record);
	text_line_add(&l.text, ",");
	add_text(&l, "message", message);
	text_line_add(&l.text, "}");
	return l.text.length;
}
