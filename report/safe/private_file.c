/* SPDX-License-Identifier: MIT */
/* private_file.c - see private_file.h. */
#include "report/safe/private_file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

FILE *private_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");

	if (fd >= 0 && !f) {
		int err = errno;
		close(fd);
		errno = err;
	}
	return f;
}
