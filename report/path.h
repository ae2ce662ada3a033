/* SPDX-License-Identifier: MIT */
/* path.h - names of files. */
#ifndef REPORT_PATH_H
#define REPORT_PATH_H

#include <stdbool.h>
#include <string.h>

/* Are the last components of path those of wanted? path may be NULL. */
static inline bool path_ends_in(const char *path, const char *wanted)
{
	size_t n = path ? strlen(path) : 0;
	size_t len = strlen(wanted);

	return n >= len && !strcmp(path + n - len, wanted) &&
	       (n == len || path[n - len - 1] == '/');
}

/*
 * Takes `.`, `..` and repeated slashes out, by the text alone. It works in place: the result is
 * never longer.
 */
void path_normalize(char *path);

/* How many of their last components are equal. Both are normal. */
size_t path_shared_end(const char *a, const char *b);

#endif
