/* SPDX-License-Identifier: MIT */
/*
 * descriptors.c - programs that close all unknown descriptors do not close those of the
 * agent.
 *
 * Daemons do that when they start, and the search would end without a message. The
 * numbers are high, and the program sees them as closed, as they were before the search.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/table_size.h"
#include "race/race.h"

#define EXPORTED __attribute__((visibility("default")))
#define OURS_MAX TABLE_SIZE(512, 2)

typedef int (*close_function)(int);

EXPORTED int close(int fd)
{
	static close_function next;

	if (race_owns_descriptor(fd)) {
		errno = EBADF;
		return -1;
	}
	if (!next)
		next = (close_function)dlsym(RTLD_NEXT, "close");
	return next(fd);
}

/* What is before each of them. *first: what is behind them. */
static int close_before(const int *ours, int count, unsigned int *first, unsigned int last,
			int flags)
{
	for (int i = 0; i < count; i++) {
		unsigned int fd = (unsigned int)ours[i];
		int err = 0;

		if (fd > last)
			return 0;
		if (fd > *first)
			err = (int)sys3(SYS_close_range, *first, fd - 1, flags);
		if (err)
			return err;
		*first = fd + 1;
	}
	return 0;
}

/* The range in pieces between Trapline's, of which there may be more than fit here. */
static int close_between(unsigned int first, unsigned int last, int flags)
{
	int ours[OURS_MAX];
	int count;

	do {
		if (first > INT_MAX)
			break;
		count = race_descriptors((int)first, ours, OURS_MAX);
		int err = close_before(ours, count, &first, last, flags);
		if (err)
			return err;
	} while (count == OURS_MAX && (unsigned int)ours[count - 1] < last);
	return first <= last ? (int)sys3(SYS_close_range, first, last, flags) : 0;
}

EXPORTED int close_range(unsigned int first, unsigned int last, int flags)
{
	int err = first > last ? -EINVAL : close_between(first, last, flags);

	if (!err)
		return 0;
	errno = -err;
	return -1;
}

EXPORTED void closefrom(int lowest)
{
	close_between(lowest < 0 ? 0 : (unsigned int)lowest, ~0u, 0);
}
