/* SPDX-License-Identifier: MIT */
/*
 * file.h - the frame of a recording: chunks with a checksum, one after the other.
 *
 *   file  := "TRAPLINE" version(u32) zero(u32) { chunk }
 *   chunk := kind(u32) length(u32) crc(u32) zero(u32) payload
 *
 * Numbers are little-endian. The checksum is CRC-32 over kind, length and payload. Chunks are only
 * ever appended and each is written at once. When either side dies, what is complete is good, and
 * the reader stops at the first chunk that is not. Not for handlers: it allocates.
 */
#ifndef RECORD_FILE_H
#define RECORD_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define RECORD_FILE_VERSION 1u
#define RECORD_FILE_HEADER_BYTES 16u
#define RECORD_CHUNK_HEADER_BYTES 16u
#define RECORD_CHUNK_MAX (1u << 20)

/* A payload that is being made. Starts zeroed; free(data) at the end. */
struct record_bytes {
	unsigned char *data;
	size_t len;
	size_t room;
	bool is_failed; /* no memory, or over RECORD_CHUNK_MAX */
};

void record_put_number(struct record_bytes *b, uint64_t number);
/* NULL is kept apart from the empty text. */
void record_put_text(struct record_bytes *b, const char *text);

/* 0 or -errno. */
int record_write_header(FILE *f);
int record_write_chunk(FILE *f, uint32_t kind, const struct record_bytes *payload);

/* A payload that is being taken apart. Nothing is trusted: after a mistake all reads give 0. */
struct record_view {
	const unsigned char *at;
	const unsigned char *end;
	bool is_bad;
};

uint64_t record_get_number(struct record_view *v);
/* Points into the payload, NUL-terminated; NULL for NULL and after a mistake. */
const char *record_get_text(struct record_view *v);

/* 0, -EBADMSG: no recording, -EPROTO: one of another version. */
int record_check_header(const unsigned char *data, size_t size);
/*
 * The chunk at *at, which moves behind it. 1, 0: the file ends there, -EBADMSG: what is there is
 * damaged or not complete.
 */
int record_next_chunk(const unsigned char *data, size_t size, size_t *at, uint32_t *kind,
		      struct record_view *payload);

#endif
