/* SPDX-License-Identifier: MIT */
/* standard_output.c - see standard_output.h. */
#include "cli/standard_output.h"

#include "cli/watchdog.h"

#include <errno.h>
#include <unistd.h>

static int failed; /* errno of the last write that failed; 0: none */

static ssize_t write_whole(void *cookie, const char *bytes, size_t n)
{
	size_t done = 0;

	while (done < n) {
		ssize_t written = write(STDOUT_FILENO, bytes + done, n - done);
		if (written >= 0)
			done += (size_t)written;
		else if (errno != EINTR || asked_times > 1) {
			failed = errno;
			break;
		}
	}
	return (ssize_t)done;
}

void standard_output_keep(void)
{
	const cookie_io_functions_t functions = { .write = write_whole };
	FILE *kept = fopencookie(NULL, "w", functions);

	if (!kept)
		return;
	setvbuf(kept, NULL, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, BUFSIZ);
	stdout = kept;
}

int standard_output_error(void)
{
	fflush(stdout);
	return failed ? failed : ferror(stdout) ? EIO : 0;
}
