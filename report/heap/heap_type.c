/* SPDX-License-Identifier: MIT */
/* heap_type.c - what the block of a heap error may be. */
#include "report/heap/heap_report.h"

/* So many callers are asked at most. */
#define WRAPPERS_MOST 6

static bool is_in_trapline(struct symbols *s, uint64_t address)
{
	struct place p = { 0 };

	symbols_place(s, address, &p);
	return p.module && finding_is_of_trapline(p.module);
}

void heap_report_type(struct heap_report *r, struct heap_view *v)
{
	const struct heap_record *record = &v->record;
	const struct heap_moment *m = &record->alloc;
	enum block_type_found found = BLOCK_TYPE_WRAPPER;
	uint32_t asked = 0;
	uint64_t address;

	for (uint32_t i = 0; i < m->frame_count && asked < WRAPPERS_MOST; i++) {
		struct symbols *s =
			file_places_symbols(heap_report_places(r), m->frames[i], &address);

		if (s && is_in_trapline(s, address - 1))
			continue;
		asked++;
		found = s ? block_type_find(s, address - 1, record->block_size, &v->type) :
			    BLOCK_TYPE_NONE;
		if (found != BLOCK_TYPE_WRAPPER)
			break;
	}
	if (found == BLOCK_TYPE_FOUND && record->address >= record->block)
		block_type_member(&v->type, record->address - record->block, v->member,
				  sizeof(v->member));
}
