/* SPDX-License-Identifier: MIT */
/* plural.h - the end of a noun in a text. */
#ifndef REPORT_PLURAL_H
#define REPORT_PLURAL_H

#include <stdint.h>

static inline const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

#endif
