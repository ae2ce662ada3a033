/* SPDX-License-Identifier: MIT */
/* code_frames.c - see code_frames.h. */
#include "code/reach/code_frames.h"

#include <errno.h>

#include "code/reach/returns_priv.h"
#include "code/unwind/unwind_index.h"
#include "code/unwind/unwind_table.h"

#define ENTRIES_MAX (1u << 20)
#define ROOM 256u

/* What an entry needs of its common part, which many entries share. */
struct table {
	const struct returns_code *code;
	struct unwind_source source;
	struct unwind_reader reader;
	struct unwind_common common;
	uint8_t room[ROOM];
};

static void table_open(struct table *t, const struct returns_code *code)
{
	t->code = code;
	t->source = (struct unwind_source){ code->copy, code->arg, t->room, sizeof(t->room) };
	t->common.at = 0;
	unwind_open(&t->reader, &t->source);
}

/*
 * The entry at *at, which moves behind it. 1: one of a function; 0: another; or -errno, or the end.
 */
static int read_entry(struct table *t, uint64_t *at, struct returns_range *out)
{
	struct unwind_entry e;
	int err = unwind_read_head(&t->reader, *at, &e);

	if (err)
		return err;
	*at = e.end;
	if (!e.common)
		return 0;
	err = unwind_read_common(&t->reader, e.common, &t->common);
	if (!err)
		err = unwind_read_entry(&t->reader, &t->common, &e);
	*out = (struct returns_range){ e.start, e.start + e.bytes, e.handlers };
	return err ? err : out->end > out->start;
}

static int read_bytes(const struct returns_code *code, uint64_t at, void *to, size_t n)
{
	return code->copy(code->arg, at, to, n) == n ? 0 : -EILSEQ;
}

static int read_row(const struct code_frames *frames, const struct returns_code *code, uint64_t i,
		    struct unwind_row *row)
{
	return read_bytes(code, frames->index + sizeof(struct unwind_index) + i * sizeof(*row), row,
			  sizeof(*row));
}

/* The last row that does not begin behind the address. */
static int find_by_index(const struct code_frames *frames, const struct returns_code *code,
			 uint64_t address, struct returns_range *out)
{
	struct unwind_index head;
	struct unwind_row row;
	struct table t;

	if (read_bytes(code, frames->index, &head, sizeof(head)) || !unwind_index_is_sorted(&head))
		return -EILSEQ;
	uint64_t low = 0;
	uint64_t high = head.count;
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		if (read_row(frames, code, middle, &row))
			return -EILSEQ;
		if (frames->index + (uint64_t)(int64_t)row.start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return -ENOENT;
	if (read_row(frames, code, low - 1, &row))
		return -EILSEQ;
	table_open(&t, code);
	uint64_t at = frames->index + (uint64_t)(int64_t)row.entry;
	int err = read_entry(&t, &at, out);
	return err < 0 ? err : err ? 0 : -EILSEQ;
}

static int find_one_by_one(const struct code_frames *frames, const struct returns_code *code,
			   uint64_t address, struct returns_range *out)
{
	uint64_t at = frames->start;
	struct table t;

	table_open(&t, code);
	for (uint32_t i = 0; i < ENTRIES_MAX && at < frames->end; i++) {
		int is_function = read_entry(&t, &at, out);
		if (is_function < 0)
			return is_function;
		if (is_function && address >= out->start && address < out->end)
			return 0;
	}
	return -ENOENT;
}

int code_frames_find(const struct code_frames *frames, const struct returns_code *code,
		     uint64_t address, struct returns_range *out)
{
	struct returns_range found;
	int err = frames->index ? find_by_index(frames, code, address, &found) :
				  find_one_by_one(frames, code, address, &found);

	if (!err && (address < found.start || address >= found.end))
		err = -ENOENT;
	if (!err)
		*out = found;
	return err;
}

int code_frames_are(const struct returns_code *code, uint64_t start, uint64_t bytes)
{
	struct returns_range range;
	uint64_t at = start;
	struct table t;

	table_open(&t, code);
	return bytes > 32 && !unwind_read_common(&t.reader, at, &t.common) &&
	       read_entry(&t, &at, &range) == 0 && at < start + bytes &&
	       read_entry(&t, &at, &range) >= 0;
}

int returns_each_handler(const struct returns_code *code, const struct returns_range *range,
			 int (*each)(void *arg, uint64_t address), void *arg)
{
	struct table t;

	if (!range->handlers)
		return 0;
	table_open(&t, code);
	return unwind_each_handler(&t.reader, range->handlers, range->start, each, arg);
}
