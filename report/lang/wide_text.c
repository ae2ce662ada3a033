/* SPDX-License-Identifier: MIT */
/* wide_text.c - see wide_text.h. */
#include "report/lang/wide_text.h"

#include "report/lang/value.h"

#include <stdint.h>
#include <string.h>

#define SHOWN_MAX 64

static uint32_t unit_at(const char *text, size_t i, size_t unit_size)
{
	uint32_t unit = 0;

	memcpy(&unit, text + i * unit_size, unit_size);
	return unit;
}

/* One character. Returns its bytes; 0: the number means no character. */
static size_t utf8_of(uint32_t c, char out[4])
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 63));
		return 2;
	}
	if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return 0;
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 63));
		out[2] = (char)(0x80 | (c & 63));
		return 3;
	}
	out[0] = (char)(0xf0 | c >> 18);
	out[1] = (char)(0x80 | (c >> 12 & 63));
	out[2] = (char)(0x80 | (c >> 6 & 63));
	out[3] = (char)(0x80 | (c & 63));
	return 4;
}

/* Two units of UTF-16 can be one character; it may be cut where the text is. */
static uint32_t character_at(const char *text, size_t *i, size_t units, size_t unit_size)
{
	uint32_t c = unit_at(text, *i, unit_size);

	++*i;
	if (unit_size != 2 || c < 0xd800 || c >= 0xdc00 || *i == units)
		return c;
	uint32_t low = unit_at(text, *i, unit_size);
	if (low < 0xdc00 || low >= 0xe000)
		return c;
	++*i;
	return 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
}

bool wide_quote(const void *text, size_t units, size_t unit_size, size_t shown, char *buf, size_t n)
{
	char plain[SHOWN_MAX * 4 + 4];
	size_t used = 0;
	size_t i = 0;

	if ((unit_size != 2 && unit_size != 4) || shown > SHOWN_MAX)
		return false;
	for (size_t count = 0; i < units && count < shown; count++) {
		size_t bytes = utf8_of(character_at(text, &i, units, unit_size), plain + used);
		if (!bytes)
			return false;
		used += bytes;
	}
	if (i < units) {
		memcpy(plain + used, "...", 3);
		used += 3;
	}
	return value_quote(plain, used, used, buf, n);
}
