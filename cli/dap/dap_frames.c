/* SPDX-License-Identifier: MIT */
/*
 * dap_frames.c - see dap_frames.h. The length is compared before a byte of the message is kept for.
 */
#include "cli/dap/dap_frames.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define LENGTH_FIELD "content-length:"

void dap_frames_begin(struct dap_frames *f, size_t max)
{
	*f = (struct dap_frames){ .max = max };
}

void dap_frames_end(struct dap_frames *f)
{
	free(f->bytes);
	*f = (struct dap_frames){ .max = f->max };
}

int dap_frames_add(struct dap_frames *f, const void *bytes, size_t n)
{
	if (f->count + n > f->room) {
		size_t room = 2 * (f->count + n);
		char *more = realloc(f->bytes, room);
		if (!more)
			return -ENOMEM;
		f->bytes = more;
		f->room = room;
	}
	memcpy(f->bytes + f->count, bytes, n);
	f->count += n;
	return 0;
}

static int broken(struct dap_frames *f, const char *why)
{
	f->why = why;
	return -EPROTO;
}

/*
 * Digits alone, with blanks around them. False: it is another thing, or too large for any message.
 */
static bool read_length(const char *text, size_t n, size_t *out)
{
	size_t value = 0;
	size_t digits = 0;

	while (n && (*text == ' ' || *text == '\t'))
		text++, n--;
	for (; n && *text >= '0' && *text <= '9'; text++, n--, digits++) {
		if (digits == 10)
			return false;
		value = value * 10 + (size_t)(*text - '0');
	}
	while (n && (*text == ' ' || *text == '\t'))
		text++, n--;
	*out = value;
	return digits && !n;
}

/* The header's fields, of which only the length has a meaning. */
static int parse_header(struct dap_frames *f, size_t header, size_t *length)
{
	const size_t field = sizeof(LENGTH_FIELD) - 1;
	bool has_length = false;

	for (size_t at = 0; at < header;) {
		const char *line = f->bytes + at;
		const char *end = memchr(line, '\r', header - at);
		size_t n = end ? (size_t)(end - line) : header - at;

		if (n >= field && !strncasecmp(line, LENGTH_FIELD, field)) {
			if (has_length || !read_length(line + field, n - field, length))
				return broken(f, "its Content-Length is not one number");
			has_length = true;
		} else if (!memchr(line, ':', n)) {
			return broken(f, "a line of a header has no name");
		}
		at += n + 2;
	}
	if (!has_length)
		return broken(f, "a header has no Content-Length");
	if (*length > f->max)
		return broken(f, "a message is longer than is accepted");
	return 0;
}

static int parse_message(struct dap_frames *f, const char *text, size_t n, json_t **out)
{
	json_error_t error;
	json_t *j = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);

	if (!json_is_object(j)) {
		json_decref(j);
		return broken(f, "a message is not a JSON object");
	}
	*out = j;
	return 1;
}

/* Some clients write an empty line behind a message. */
static void drop_empty_lines(struct dap_frames *f)
{
	size_t n = 0;

	while (n < f->count && (f->bytes[n] == '\r' || f->bytes[n] == '\n'))
		n++;
	f->count -= n;
	if (n)
		memmove(f->bytes, f->bytes + n, f->count);
}

int dap_frames_next(struct dap_frames *f, json_t **out)
{
	size_t length = 0;

	drop_empty_lines(f);
	size_t looked = f->count < DAP_HEADER_MAX ? f->count : DAP_HEADER_MAX;
	const char *end = f->count ? memmem(f->bytes, looked, "\r\n\r\n", 4) : NULL;

	if (f->why)
		return -EPROTO;
	if (!end)
		return looked == DAP_HEADER_MAX ? broken(f, "a header does not end") : 0;
	size_t header = (size_t)(end - f->bytes);
	int err = parse_header(f, header, &length);
	if (err)
		return err;
	if (f->count - header - 4 < length)
		return 0;
	int got = parse_message(f, end + 4, length, out);
	f->count -= header + 4 + length;
	memmove(f->bytes, f->bytes + header + 4 + length, f->count);
	return got;
}
