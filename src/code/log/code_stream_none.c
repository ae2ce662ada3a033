/* SPDX-License-Identifier: MIT */
/*
 * code_stream_none.c - code_stream.h where the stream has no form for the trap yet: a program
 * learns of changes by trapline_log_code() only.
 */
#include <errno.h>

#include "code/log/code_stream.h"

int code_stream_to(int fd, struct code_problem *problem)
{
	problem->why = "the stream of changes to code is for x86-64 only so far; use "
		       "trapline_log_code()";
	return -EOPNOTSUPP;
}

void code_stream_by_environment(void)
{
}

void code_stream_stage(const struct change *change, enum trapline_code_stage stage)
{
}

void code_stream_slot(const struct code_fresh *fresh)
{
}

void code_stream_fill(uint64_t begin_ns, uint64_t address, uint64_t bytes, uint32_t value)
{
}

void code_stream_objects(void)
{
}

void code_stream_after_fork_in_child(pid_t parent, uint64_t fork_ns)
{
}
