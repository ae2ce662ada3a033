/* SPDX-License-Identifier: MIT */
/* wide_text.h - text of 2 or 4 bytes a character: wstring, u16string, QString. */
#ifndef REPORT_LANG_WIDE_TEXT_H
#define REPORT_LANG_WIDE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The first `shown` of so many units of UTF-16 or UTF-32 in double quotes, as UTF-8. False: it does
 * not look like text.
 */
bool wide_quote(const void *text, size_t units, size_t unit_size, size_t shown, char *buf,
		size_t n);

#endif
