/* SPDX-License-Identifier: MIT */
/*
 * unwind.c - any bytes as .eh_frame_hdr, .eh_frame and the tables of exception handlers (libFuzzer).
 *
 * An input has 2 bytes for the address that is looked up, 1 for the way, and an image whose first byte is the
 * beginning of the index. Its pointers are relative, so the image may lie anywhere.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "code/reach/code_frames.h"
#include "code/reach/returns.h"
#include "code/reach/returns_priv.h"
#include "code/unwind/unwind_index.h"
#include "fuzz.h"

#define BASE 0x400000u
#define HEAD 3u
#define ENTRIES_MOST 0x10000u /* an entry has at least 4 bytes, a call site at least 4 too */

#define MUST(claim)              \
	do {                     \
		if (!(claim))    \
			abort(); \
	} while (0)

struct image {
	const uint8_t *bytes;
	size_t size;
	size_t calls;
};

static size_t copy(void *arg, uint64_t address, void *to, size_t n)
{
	const struct image *image = arg;
	const uint64_t at = address - BASE;

	if (at >= image->size)
		return 0;
	n = n < image->size - at ? n : image->size - at;
	memcpy(to, image->bytes + at, n);
	return n;
}

static int count(void *arg, uint64_t address)
{
	struct image *image = arg;

	(void)address;
	MUST(++image->calls < ENTRIES_MOST);
	return 0;
}

/* The search in memory, and the one that copies each row, answer alike. */
static void compare_index(const struct image *image, uint64_t address, int err,
			  const struct returns_range *range)
{
	/* Aligned, and with room for the head of an index. */
	struct unwind_index *index = malloc(image->size + sizeof(*index));
	const struct unwind_row *row;

	MUST(index);
	memset(index, 0, sizeof(*index));
	memcpy(index, image->bytes, image->size);
	const size_t rows = (image->size - sizeof(*index)) / sizeof(index->rows[0]);
	if (image->size >= sizeof(*index) && index->count <= rows &&
	    unwind_index_is_sorted(index)) {
		row = unwind_index_find(index, (uintptr_t)index + (address - BASE));
		MUST(err || row);
		if (!err)
			MUST(address >= range->start && address < range->end);
	}
	free(index);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < HEAD + 16)
		return 0;
	struct image image = { data + HEAD, size - HEAD, 0 };
	const struct returns_code code = { .copy = copy, .arg = &image };
	/* Functions lie before the tables, or behind them. */
	const uint64_t address = BASE + (uint64_t)(int64_t)(int16_t)(data[0] | data[1] << 8) * 16;
	const int has_index = data[2] & 1;
	struct code_frames frames = {
		.index = has_index ? BASE : 0,
		.start = BASE + (has_index ? 0 : data[2] / 2u * 4),
		.end = BASE + image.size,
	};
	struct returns_range range = { 0 };

	const int err = code_frames_find(&frames, &code, address, &range);
	MUST(err <= 0);
	if (!err)
		MUST(address >= range.start && address < range.end);
	if (has_index)
		compare_index(&image, address, err, &range);
	code_frames_are(&code, frames.start, frames.end - frames.start);
	if (!err)
		returns_each_handler(&code, &range, count, &image);
	/* Landing pads are read from any address that an entry names. */
	range = (struct returns_range){ BASE, BASE + 4096, BASE + data[0] };
	image.calls = 0;
	returns_each_handler(&code, &range, count, &image);
	return 0;
}
