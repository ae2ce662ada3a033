/* SPDX-License-Identifier: MIT */
/* opts_copy.c - options that grow with the library. */
#include <errno.h>
#include <string.h>

#include "core/explain.h"
#include "core/opts_copy.h"

/* Copy versioned options: older callers get defaults, newer ones must not ask for more. */
int opts_copy(void *to, size_t size, const void *from)
{
	size_t given;

	memset(to, 0, size);
	if (!from)
		return 0;
	memcpy(&given, from, sizeof(given));
	if (given < sizeof(size_t))
		return failed(-EINVAL, FAILED_ARGUMENT, "opts.size is not set");
	for (size_t i = size; i < given; i++)
		if (((const char *)from)[i])
			return failed(-E2BIG, FAILED_ARGUMENT,
				      "options of a newer library version");
	memcpy(to, from, given < size ? given : size);
	return 0;
}
