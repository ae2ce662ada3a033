/* SPDX-License-Identifier: MIT */
/* path.c - see path.h. */
#include "report/path.h"

static size_t component_start(const char *path, size_t end)
{
	while (end && path[end - 1] != '/')
		end--;
	return end;
}

/* The end of what is kept: `..` takes the last component away, where there is one. */
static size_t path_drop_last(const char *path, size_t used)
{
	size_t start = component_start(path, used);
	bool is_up = used - start == 2 && path[start] == '.' && path[start + 1] == '.';
	if (start == used || is_up)
		return used;
	return start > 1 ? start - 1 : start;
}

void path_normalize(char *path)
{
	bool is_absolute = path[0] == '/';
	size_t used = is_absolute ? 1 : 0;

	for (const char *at = path; *at;) {
		while (*at == '/')
			at++;
		size_t n = strcspn(at, "/");
		size_t dropped = path_drop_last(path, used);
		if (n == 2 && at[0] == '.' && at[1] == '.' && dropped < used) {
			used = dropped;
		} else if (n == 2 && at[0] == '.' && at[1] == '.' && is_absolute) {
			used = 1;
		} else if (n && !(n == 1 && at[0] == '.')) {
			if (used && path[used - 1] != '/')
				path[used++] = '/';
			memmove(path + used, at, n);
			used += n;
		}
		at += n;
	}
	path[used] = 0;
}

size_t path_shared_end(const char *a, const char *b)
{
	size_t x = strlen(a);
	size_t y = strlen(b);
	size_t shared = 0;

	while (x && y) {
		size_t i = component_start(a, x);
		size_t k = component_start(b, y);

		if (x - i != y - k || memcmp(a + i, b + k, x - i) != 0)
			break;
		shared++;
		x = i ? i - 1 : 0;
		y = k ? k - 1 : 0;
	}
	return shared;
}
