/* SPDX-License-Identifier: MIT */
/* heap_line.c - see heap_line.h: no symbols and no source lines, but files and addresses in them. */
#include "heap/heap_line.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/atomic.h"

struct line {
	char *at;
	size_t n;
	size_t length;
	const struct heap_region *region;
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
static void add_text(struct line *l, const char *name, const char *text)
{
	if (!text) {
		add(l, "\"%s\":null", name);
		return;
	}
	add(l, "\"%s\":\"", name);
	for (; *text; text++)
		if (*text == '"' || *text == '\\')
			add(l, "\\%c", *text);
		else
			add(l, "%c", *text >= ' ' && *text <= '~' ? *text : '?');
	add(l, "\"");
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

	add(l, "{");
	add_text(l, "module", slash ? slash + 1 : path);
	add(l, ",\"%s\":\"0x%" PRIx64 "\"}", path ? "module_offset" : "address", offset);
}

static void add_moment(struct line *l, const char *name, const struct heap_moment *m)
{
	if (!m->time_ns) {
		add(l, ",\"%s\":null", name);
		return;
	}
	add(l, ",\"%s\":{\"tid\":%" PRId32 ",\"time_ns\":%" PRIu64 ",\"stack\":[", name, m->tid,
	    m->time_ns);
	for (uint32_t i = 0; i < m->frame_count && i < HEAP_FRAMES; i++) {
		add(l, i ? "," : "");
		add_frame(l, m->frames[i]);
	}
	add(l, "]}");
}

size_t heap_report_line(const struct heap_region *region, const struct heap_record *record,
			char *text, size_t n)
{
	static const char *const kinds[HEAP_KINDS] = {
		[HEAP_USE_AFTER_FREE] = "use-after-free", [HEAP_DOUBLE_FREE] = "double-free",
		[HEAP_INVALID_FREE] = "invalid-free",	  [HEAP_OVERFLOW] = "overflow",
		[HEAP_UNDERFLOW] = "underflow",
	};
	static const char *const accesses[] = { NULL, "read", "write" };
	struct line l = { text, n, 0, region };

	add(&l, "{\"type\":\"heap\",");
	add_text(&l, "kind", kinds[record->kind % HEAP_KINDS]);
	add(&l, ",\"grade\":\"%s\",", record->grade ? "B" : "A");
	add_text(&l, "access", accesses[record->access % 3u]);
	add(&l, ",\"address\":\"0x%" PRIx64 "\"", record->address);
	if (record->size)
		add(&l, ",\"size\":%" PRIu64, record->size);
	else
		add(&l, ",\"size\":null");
	if (record->block)
		add(&l,
		    ",\"offset\":%" PRId64 ",\"block\":\"0x%" PRIx64 "\",\"block_size\":%" PRIu64,
		    (int64_t)(record->address - record->block), record->block, record->block_size);
	else
		add(&l, ",\"offset\":null,\"block\":null,\"block_size\":null");
	add(&l, ",\"pid\":%" PRId32, record->pid);
	add_moment(&l, "first", &record->first);
	add_moment(&l, "alloc", &record->alloc);
	add_moment(&l, "free", &record->freed);
	add(&l, "}");
	return l.length;
}
