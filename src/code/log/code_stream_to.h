/* SPDX-License-Identifier: MIT */
/* code_stream_to.h - where the stream of changes to code goes. */
#ifndef CODE_LOG_CODE_STREAM_TO_H
#define CODE_LOG_CODE_STREAM_TO_H

#include "code/poke/poke.h"

/* fd -1 ends it. Takes the lock. 0 or -errno. */
int code_stream_to(int fd, struct code_problem *problem);
/* Where TRAPLINE_CODE_LOG states: a path, or /proc/PID/fd/N#INODE of a pipe. */
void code_stream_by_environment(void);

#endif
