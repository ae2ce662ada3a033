/* SPDX-License-Identifier: MIT */
/* encoded.c - see encoded.h; and the landing pads of a function, from its table of handlers. */
#include "code/reach/encoded.h"

#include <errno.h>
#include <string.h>

#include "code/reach/returns_priv.h"

enum {
	FORMAT_WORD = 0x00,
	FORMAT_ULEB = 0x01,
	FORMAT_U16 = 0x02,
	FORMAT_U32 = 0x03,
	FORMAT_U64 = 0x04,
	FORMAT_S16 = 0x0a,
	FORMAT_S32 = 0x0b,
	FORMAT_S64 = 0x0c,
	RELATIVE_TO_PLACE = 0x10,
	RELATIVE_TO_DATA = 0x30,
};

int encoded_bytes(const struct returns_code *code, uint64_t *at, void *to, size_t n)
{
	if (code->copy(code->arg, *at, to, n) != n)
		return -EILSEQ;
	*at += n;
	return 0;
}

int encoded_uleb(const struct returns_code *code, uint64_t *at, uint64_t *out)
{
	uint64_t value = 0;
	uint8_t byte;

	for (unsigned int shift = 0; shift < 64; shift += 7) {
		if (encoded_bytes(code, at, &byte, 1))
			return -EILSEQ;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte & 0x80)
			continue;
		*out = value;
		return 0;
	}
	return -EILSEQ;
}

static int read_number(const struct returns_code *code, uint64_t *at, unsigned int format,
		       uint64_t *out)
{
	int16_t s16 = 0;
	int32_t s32 = 0;
	int err;

	*out = 0;
	switch (format) {
	case FORMAT_ULEB:
		return encoded_uleb(code, at, out);
	case FORMAT_U16:
		return encoded_bytes(code, at, out, 2);
	case FORMAT_U32:
		return encoded_bytes(code, at, out, 4);
	case FORMAT_WORD:
	case FORMAT_U64:
	case FORMAT_S64:
		return encoded_bytes(code, at, out, 8);
	case FORMAT_S16:
		err = encoded_bytes(code, at, &s16, sizeof(s16));
		*out = (uint64_t)(int64_t)s16;
		return err;
	case FORMAT_S32:
		err = encoded_bytes(code, at, &s32, sizeof(s32));
		*out = (uint64_t)(int64_t)s32;
		return err;
	default:
		return -EILSEQ;
	}
}

int encoded_pointer(const struct returns_code *code, uint64_t *at, uint8_t encoding, uint64_t data,
		    uint64_t *out)
{
	uint64_t place = *at;
	uint64_t value;
	int err = read_number(code, at, encoding & 0x0f, &value);

	if (err)
		return err;
	switch (encoding & 0xf0) {
	case 0:
		break;
	case RELATIVE_TO_PLACE:
		value += value ? place : 0;
		break;
	case RELATIVE_TO_DATA:
		value += data;
		break;
	default:
		return -EILSEQ;
	}
	*out = value;
	return 0;
}

struct handlers {
	uint64_t base; /* of landing pads */
	uint64_t end;  /* of the call sites */
	uint8_t encoding;
};

static int read_head(const struct returns_code *code, const struct returns_range *range,
		     uint64_t *at, struct handlers *h)
{
	uint64_t unused;
	uint8_t encoding = ENCODED_OMITTED;
	int err = encoded_bytes(code, at, &encoding, 1);

	h->base = range->start;
	if (!err && encoding != ENCODED_OMITTED)
		err = encoded_pointer(code, at, encoding, 0, &h->base);
	if (!err)
		err = encoded_bytes(code, at, &encoding, 1);
	if (!err && encoding != ENCODED_OMITTED)
		err = encoded_uleb(code, at, &unused);
	if (!err)
		err = encoded_bytes(code, at, &h->encoding, 1);
	if (!err)
		err = encoded_uleb(code, at, &h->end);
	h->end += *at;
	return err;
}

int returns_each_handler(const struct returns_code *code, const struct returns_range *range,
			 int (*each)(void *arg, uint64_t address), void *arg)
{
	uint64_t at = range->handlers;
	struct handlers h = { 0 };
	uint64_t field[3]; /* of a call site: where it begins, its length, its landing pad */
	uint64_t action;

	if (!at)
		return 0;
	int err = read_head(code, range, &at, &h);
	while (!err && at < h.end) {
		for (int i = 0; !err && i < 3; i++)
			err = encoded_pointer(code, &at, h.encoding, 0, &field[i]);
		if (!err)
			err = encoded_uleb(code, &at, &action);
		if (!err && field[2])
			err = each(arg, h.base + field[2]);
	}
	return err;
}
