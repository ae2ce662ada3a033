/* SPDX-License-Identifier: MIT */
/* own_status.h - a line of /proc/self/status. */
#ifndef BASE_OWN_STATUS_H
#define BASE_OWN_STATUS_H

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/own_fd.h"
#include "base/sys.h"

#define OWN_STATUS_LINE 24u /* bytes, at least as many as of a key with its first character */

/*
 * The first character of a value, whose key is as "\nSeccomp:\t"; 0: the kernel has no such line;
 * or -errno. The list of groups, which comes before some, may be longer than any room here.
 */
static inline int own_status(const char *key)
{
	char text[4096] = "";
	size_t kept = 0; /* of the part before: a line may be in two parts */
	char value = '\0';
	ssize_t n = 1;
	int fd = own_fd_open("/proc/self/status", O_RDONLY);

	if (fd < 0)
		return fd;
	for (int parts = 0; !value && n > 0; parts++) {
		n = sys_read(fd, text + kept, sizeof(text) - 1 - kept);
		if (n <= 0) {
			n = n || parts ? n : -EIO;
			break;
		}
		size_t end = kept + (size_t)n;
		text[end] = '\0';
		const char *at = strstr(text, key);
		value = at ? at[strlen(key)] : '\0';
		kept = end < OWN_STATUS_LINE ? end : OWN_STATUS_LINE;
		memmove(text, text + end - kept, kept);
	}
	sys_close(fd);
	return value ? value : (int)n;
}

#endif
