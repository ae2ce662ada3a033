/* SPDX-License-Identifier: MIT */
/* stream_fd.h - the descriptor of a stream, also of the command's own standard output. */
#ifndef REPORT_SAFE_STREAM_FD_H
#define REPORT_SAFE_STREAM_FD_H

#include <stdio.h>
#include <unistd.h>

/* After standard_output_keep() stdout has no descriptor for fileno(). */
static inline int stream_fd(FILE *f)
{
	return f == stdout ? STDOUT_FILENO : fileno(f);
}

#endif
