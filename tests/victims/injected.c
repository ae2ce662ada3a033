/* SPDX-License-Identifier: MIT */
/* injected.c - an object that tests load into a running process. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static int calls;

int injected_start(const char *argument);

int injected_start(const char *argument)
{
	char *copy = NULL;

	/* The allocator, stdio and vector registers are all in use by the target. */
	int n = asprintf(&copy, "%s %g", argument, 1.5);
	free(copy);
	errno = ENOTTY;
	return n + 1000 * ++calls;
}
