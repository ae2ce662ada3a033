/* SPDX-License-Identifier: MIT */
/*
 * unwind_index.h - .eh_frame_hdr: where the functions of an object begin, as sorted rows.
 *
 * All of it is read in memory that the caller knows to be there: of a loaded object, or a copy.
 * AS-Safe, and without vector registers.
 */
#ifndef CODE_UNWIND_UNWIND_INDEX_H
#define CODE_UNWIND_UNWIND_INDEX_H

#include <stddef.h>
#include <stdint.h>

struct unwind_row {
	int32_t start; /* of a function, from the beginning of the index */
	int32_t entry; /* its FDE, from there too */
};

struct unwind_index {
	uint8_t version;
	uint8_t pointer_encoding;
	uint8_t count_encoding;
	uint8_t row_encoding;
	int32_t frames; /* .eh_frame, from here */
	uint32_t count;
	struct unwind_row rows[];
};

/* DW_EH_PE_sdata4, udata4, and datarel | sdata4: what all linkers write. */
static inline int unwind_index_is_sorted(const struct unwind_index *index)
{
	return index->version == 1 && (index->pointer_encoding & 0x0f) == 0x0b &&
	       index->count_encoding == 0x03 && index->row_encoding == 0x3b;
}

/* How many rows begin at or before wanted, which counts as their starts do. */
static inline uint32_t unwind_rows_until(const struct unwind_row *rows, uint32_t count,
					 int64_t wanted)
{
	uint32_t low = 0;
	uint32_t high = count;

	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;

		if (rows[middle].start <= wanted)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The last row that begins at an address or before it; NULL: none, or no index of this form. */
static inline const struct unwind_row *unwind_index_find(const struct unwind_index *index,
							 uint64_t address)
{
	if (!unwind_index_is_sorted(index))
		return NULL;
	const uint32_t n =
		unwind_rows_until(index->rows, index->count, (int64_t)(address - (uintptr_t)index));

	return n ? &index->rows[n - 1] : NULL;
}

static inline uint64_t unwind_row_start(const struct unwind_index *index,
					const struct unwind_row *row)
{
	return (uintptr_t)index + (uint64_t)(int64_t)row->start;
}

#endif
