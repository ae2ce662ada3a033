/* SPDX-License-Identifier: MIT */
/* heap_line.c - see heap_line.h: no symbols and no source lines, but files and addresses in them. */
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

static void add_frame(struct line *l, uint64_t place)
{
	uint64_t offset;
	const char *path = heap_file_of(l->region, place, &offset);
	const char *slash = path ? strrchr(path, '/') : NULL;

	text_line_add(&l->text, "{");
	add_text(l, "module", slash ? slash + 1 : path);
	text_line_add(&l->text, ",\"%s\":\"0x%" PRIx64 "\"}", path ? "module_offset" : "address",
		      offset);
}

static void add_moment(struct line *l, const char *name, const struct heap_moment *m)
{
	if (!m->time_ns) {
		text_line_add(&l->text, ",\"%s\":null", name);
		return;
	}
	text_line_add(&l->text, ",\"%s\":{\"tid\":%" PRId32 ",\"time_ns\":%" PRIu64 ",\"stack\":[",
		      name, m->tid, m->time_ns);
	for (uint32_t i = 0; i < m->frame_count && i < HEAP_FRAMES; i++) {
		text_line_add(&l->text, i ? "," : "");
		add_frame(l, m->frames[i]);
	}
	text_line_add(&l->text, "]}");
}

size_t heap_report_line(const struct heap_region *region, const struct heap_record *record,
			char *text, size_t n)
{
	static const char *const kinds[HEAP_KINDS] = {
		[HEAP_USE_AFTER_FREE] = "use-after-free", [HEAP_DOUBLE_FREE] = "double-free",
		[HEAP_INVALID_FREE] = "invalid-free",	  [HEAP_OVERFLOW] = "overflow",
		[HEAP_UNDERFLOW] = "underflow",		  [HEAP_CORRUPTION] = "corruption",
	};
	static const char *const accesses[] = { NULL, "read", "write" };
	struct line l = { { text, n, 0 }, region };

	text_line_add(&l.text, "{\"type\":\"heap\",");
	add_text(&l, "kind", kinds[record->kind % HEAP_KINDS]);
	text_line_add(&l.text, ",\"grade\":\"%s\",", record->grade ? "B" : "A");
	add_text(&l, "access", accesses[record->access % 3u]);
	text_line_add(&l.text, ",");
	add_text(&l, "message", record->message[0] ? record->message : NULL);
	text_line_add(&l.text, ",\"address\":\"0x%" PRIx64 "\"", record->address);
	if (record->size)
		text_line_add(&l.text, ",\"size\":%" PRIu64, record->size);
	else
		text_line_add(&l.text, ",\"size\":null");
	if (record->block)
		text_line_add(&l.text,
			      ",\"offset\":%" PRId64 ",\"block\":\"0x%" PRIx64
			      "\",\"block_size\":%" PRIu64,
			      (int64_t)(record->address - record->block), record->block,
			      record->block_size);
	else
		text_line_add(&l.text, ",\"offset\":null,\"block\":null,\"block_size\":null");
	text_line_add(&l.text, ",\"pid\":%" PRId32, record->pid);
	add_moment(&l, "first", &record->first);
	add_moment(&l, "alloc", &record->alloc);
	add_moment(&l, "free", &record->freed);
	text_line_add(&l.text, "}");
	return l.text.length;
}
