/* SPDX-License-Identifier: MIT */
/*
 * descriptors.c - programs that close all descriptors they do not know leave ours open.
 *
 * Daemons do so when they start, and the search would end there without a word. The numbers are
 * high and are taken for closed already, as they were before us.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <unistd.h>

#include "base/sys.h"
#include "tools/race.h"

#define EXPORTED __attribute__((visibility("default")))
#define OURS_MAX 512

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

/* The range in pieces between ours. */
static int close_between(unsigned int first, unsigned int last, int flags)
{
	int ours[OURS_MAX];
	int count = race_descriptors(ours, OURS_MAX); /* ascending */

	for (int i = 0; i < count && first <= last; i++) {
		unsigned int fd = (unsigned int)ours[i];

		if (fd < first || fd > last)
			continue;
		if (fd > first) {
			int err = (int)sys3(SYS_close_range, first, fd - 1, flags);
			if (err)
				return err;
		}
		first = fd + 1;
	}
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
