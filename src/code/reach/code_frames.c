/* SPDX-License-Identifier: MIT */
/* code_frames.c - see code_frames.h. */
#include "code/reach/code_frames.h"

#include <errno.h>
#include <string.h>

#include "code/reach/encoded.h"

#define ROWS_ARE_SORTED_PAIRS 0x3b /* signed, 4 bytes, from the start of the index */
#define ENTRIES_MAX (1u << 20)

/* What an entry needs of its common part, which many entries share. */
struct common {
	uint64_t at;	  /* 0: not read */
	uint8_t pointer;  /* encoding of the range */
	uint8_t handlers; /* encoding of the pointer to the landing pads */
	int has_data;	  /* augmentation data, with a length */
};

static int skip_augmented(const struct returns_code *code, uint64_t *at, char letter,
			  struct common *out)
{
	uint8_t encoding;
	uint64_t unused;

	switch (letter) {
	case 'L':
		return encoded_bytes(code, at, &out->handlers, 1);
	case 'R':
		return encoded_bytes(code, at, &out->pointer, 1);
	case 'P':
		if (encoded_bytes(code, at, &encoding, 1))
			return -EILSEQ;
		return encoded_pointer(code, at, encoding & 0x7f, 0, &unused);
	case 'S':
	case 'B':
	case 'G':
		return 0;
	default:
		return -EILSEQ;
	}
}

static int read_common(const struct returns_code *code, uint64_t at, struct common *out)
{
	uint32_t head[2];
	char version_and_text[9] = { 0 };
	uint64_t unused;

	*out = (struct common){ .at = at, .handlers = ENCODED_OMITTED };
	if (encoded_bytes(code, &at, head, sizeof(head)) || head[1] ||
	    encoded_bytes(code, &at, version_and_text, 8))
		return -EILSEQ;
	const char *letters = version_and_text + 1;
	size_t n = strnlen(letters, 7);
	if (n == 7 || (version_and_text[0] != 1 && version_and_text[0] != 3))
		return -EILSEQ;
	at -= 7 - (n + 1);
	int err = encoded_uleb(code, &at, &unused); /* code alignment */
	if (!err)
		err = encoded_uleb(code, &at,
				   &unused); /* data alignment: signed, of the same length */
	if (!err)
		err = encoded_uleb(code, &at, &unused); /* return address register */
	if (err || !n)
		return err;
	if (letters[0] != 'z')
		return -EILSEQ;
	out->has_data = 1;
	err = encoded_uleb(code, &at, &unused);
	for (size_t i = 1; !err && i < n; i++)
		err = skip_augmented(code, &at, letters[i], out);
	return err;
}

/*
 * The entry at *at, which moves behind it. 1: one of a function; 0: another; or -errno, or the end.
 */
static int read_entry(const struct returns_code *code, uint64_t *at, struct common *common,
		      struct returns_range *out)
{
	uint32_t head[2];
	uint64_t place = *at;
	uint64_t bytes = 0;
	uint64_t unused;

	if (encoded_bytes(code, &place, head, sizeof(head)))
		return -EILSEQ;
	/* 64-bit lengths are never written. */
	if (head[0] < 4 || head[0] >= 0xfffffff0)
		return head[0] ? -EILSEQ : -ENOENT;
	*at += 4 + (uint64_t)head[0];
	if (!head[1])
		return 0;
	int err = common->at == place - 4 - head[1] ?
			  0 :
			  read_common(code, place - 4 - head[1], common);
	if (!err)
		err = encoded_pointer(code, &place, common->pointer, 0, &out->start);
	if (!err)
		err = encoded_pointer(code, &place, common->pointer & 0x0f, 0, &bytes);
	out->end = out->start + bytes;
	out->handlers = 0;
	if (!err && common->has_data)
		err = encoded_uleb(code, &place, &unused);
	if (!err && common->has_data && common->handlers != ENCODED_OMITTED)
		err = encoded_pointer(code, &place, common->handlers, 0, &out->handlers);
	return err ? err : out->end > out->start;
}

static int read_row(const struct code_frames *frames, const struct returns_code *code, uint64_t i,
		    int32_t row[2])
{
	uint64_t at = frames->index + 12 + 8 * i;

	return encoded_bytes(code, &at, row, 8);
}

/* The last row that does not begin behind the address. */
static int find_by_index(const struct code_frames *frames, const struct returns_code *code,
			 uint64_t address, struct returns_range *out)
{
	uint8_t head[4];
	uint64_t at = frames->index;
	struct common common = { 0 };
	uint64_t unused;
	uint32_t count = 0;
	int32_t row[2];

	if (encoded_bytes(code, &at, head, sizeof(head)) || head[0] != 1 ||
	    head[3] != ROWS_ARE_SORTED_PAIRS || head[2] != 0x03 || (head[1] & 0x0f) != 0x0b ||
	    encoded_pointer(code, &at, head[1], frames->index, &unused) ||
	    encoded_bytes(code, &at, &count, sizeof(count)))
		return -EILSEQ;
	uint64_t low = 0;
	uint64_t high = count;
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		if (read_row(frames, code, middle, row))
			return -EILSEQ;
		if (frames->index + (uint64_t)(int64_t)row[0] <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return -ENOENT;
	if (read_row(frames, code, low - 1, row))
		return -EILSEQ;
	at = frames->index + (uint64_t)(int64_t)row[1];
	int err = read_entry(code, &at, &common, out);
	return err < 0 ? err : err ? 0 : -EILSEQ;
}

static int find_one_by_one(const struct code_frames *frames, const struct returns_code *code,
			   uint64_t address, struct returns_range *out)
{
	struct common common = { 0 };
	uint64_t at = frames->start;

	for (uint32_t i = 0; i < ENTRIES_MAX && at < frames->end; i++) {
		int is_function = read_entry(code, &at, &common, out);
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
	struct common common;
	struct returns_range range;
	uint64_t at = start;

	return bytes > 32 && !read_common(code, at, &common) &&
	       read_entry(code, &at, &common, &range) == 0 && at < start + bytes &&
	       read_entry(code, &at, &common, &range) >= 0;
}
