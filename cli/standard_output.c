/* SPDX-License-Identifier: MIT */
/* standard_output.c - see standard_output.h. */
#include "cli/standard_output.h"

#include "cli/watchdog.h"

#include <errno.h>
#include <unistd.h>

static char
	room[1 << 18]; /* a line of JSON, or the hits between two looks, leave with one write(2) */
static int failed;     /* errno of the last write that failed; 0: none */

ssize_t standard_write(int fd, const char *bytes, size_t n)
{
	size_t done = 0;

	while (done < n) {
		ssize_t written = write(fd, bytes + done, n - done);
		if (written >= 0)
			done += (size_t)written;
		else if (errno != EINTR || asked_times > 1)
			break;
	}
	return (ssize_t)done;
}

static ssize_t write_whole(void *cookie, const char *bytes, size_t n)
{
	ssize_t done = standard_write(STDOUT_FILENO, bytes, n);

	if (done < (ssize_t)n)
		failed = errno;
	return done;
}

void standard_output_keep(void)
{
	const cookie_io_functions_t functions = { .write = write_whole };
	FILE *kept = fopencookie(NULL, "w", functions);

	if (!kept)
		return;
	setvbuf(kept, room, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, sizeof(room));
	stdout = kept;
}

int standard_output_error(void)
{
	fflush(stdout);
	return failed ? failed : ferror(stdout) ? EIO : 0;
}
