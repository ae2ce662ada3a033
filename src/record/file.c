/* SPDX-License-Identifier: MIT */
/* file.c - see file.h. */
#include "record/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static const char magic[8] = { 'T', 'R', 'A', 'P', 'L', 'I', 'N', 'E' };

static void put32(unsigned char *to, uint32_t number)
{
	for (int i = 0; i < 4; i++)
		to[i] = (unsigned char)(number >> 8 * i);
}

static uint32_t get32(const unsigned char *from)
{
	return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 |
	       (uint32_t)from[3] << 24;
}

static unsigned char *grow(struct record_bytes *b, size_t n)
{
	if (b->is_failed || n > RECORD_CHUNK_MAX - b->len) {
		b->is_failed = true;
		return NULL;
	}
	if (b->len + n > b->room) {
		size_t room = 2 * (b->len + n);
		unsigned char *more = realloc(b->data, room);
		if (!more) {
			b->is_failed = true;
			return NULL;
		}
		b->data = more;
		b->room = room;
	}
	b->len += n;
	return b->data + b->len - n;
}

void record_put_number(struct record_bytes *b, uint64_t number)
{
	unsigned char *to = grow(b, 8);

	for (int i = 0; to && i < 8; i++)
		to[i] = (unsigned char)(number >> 8 * i);
}

void record_put_text(struct record_bytes *b, const char *text)
{
	size_t n = text ? strlen(text) + 1 : 0;
	unsigned char *to = grow(b, 4 + n);

	if (!to)
		return;
	put32(to, (uint32_t)n);
	if (text)
		memcpy(to + 4, text, n);
}

static int put_all(FILE *f, const void *data, size_t n)
{
	errno = 0;
	if (!n || fwrite(data, n, 1, f) == 1)
		return 0;
	return errno ? -errno : -EIO;
}

int record_write_header(FILE *f)
{
	unsigned char header[RECORD_FILE_HEADER_BYTES] = { 0 };

	memcpy(header, magic, sizeof(magic));
	put32(header + 8, RECORD_FILE_VERSION);
	return put_all(f, header, sizeof(header));
}

static uint32_t checksum(const unsigned char *header, const unsigned char *payload, size_t n)
{
	uint32_t crc = (uint32_t)crc32(0, header, 8);

	return (uint32_t)crc32(crc, payload, (uInt)n);
}

int record_write_chunk(FILE *f, uint32_t kind, const struct record_bytes *payload)
{
	unsigned char header[RECORD_CHUNK_HEADER_BYTES] = { 0 };

	if (payload->is_failed)
		return -ENOMEM;
	put32(header, kind);
	put32(header + 4, (uint32_t)payload->len);
	put32(header + 8, checksum(header, payload->data, payload->len));
	int err = put_all(f, header, sizeof(header));
	return err ? err : put_all(f, payload->data, payload->len);
}

static const unsigned char *view_take(struct record_view *v, size_t n)
{
	const unsigned char *at = v->at;

	if (v->is_bad || n > (size_t)(v->end - v->at)) {
		v->is_bad = true;
		return NULL;
	}
	v->at += n;
	return at;
}

uint64_t record_get_number(struct record_view *v)
{
	const unsigned char *at = view_take(v, 8);

	return at ? (uint64_t)get32(at) | (uint64_t)get32(at + 4) << 32 : 0;
}

const char *record_get_text(struct record_view *v)
{
	const unsigned char *at = view_take(v, 4);
	uint32_t n = at ? get32(at) : 0;

	if (!n)
		return NULL;
	at = view_take(v, n);
	if (at && memchr(at, 0, n) != at + n - 1)
		v->is_bad = true;
	return v->is_bad ? NULL : (const char *)at;
}

int record_check_header(const unsigned char *data, size_t size)
{
	if (size < RECORD_FILE_HEADER_BYTES || memcmp(data, magic, sizeof(magic)) != 0)
		return -EBADMSG;
	return get32(data + 8) == RECORD_FILE_VERSION ? 0 : -EPROTO;
}

int record_next_chunk(const unsigned char *data, size_t size, size_t *at, uint32_t *kind,
		      struct record_view *payload)
{
	const unsigned char *header = data + *at;

	if (*at == size)
		return 0;
	if (size - *at < RECORD_CHUNK_HEADER_BYTES)
		return -EBADMSG;
	uint32_t len = get32(header + 4);
	const unsigned char *start = header + RECORD_CHUNK_HEADER_BYTES;
	if (len > RECORD_CHUNK_MAX || len > size - *at - RECORD_CHUNK_HEADER_BYTES ||
	    get32(header + 8) != checksum(header, start, len))
		return -EBADMSG;
	*kind = get32(header);
	*payload = (struct record_view){ start, start + len, false };
	*at += RECORD_CHUNK_HEADER_BYTES + len;
	return 1;
}
