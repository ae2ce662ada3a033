/* SPDX-License-Identifier: MIT */
/* snapshot_none.c - where no code can be made to run in a process. */
#include "cli/act/snapshot.h"

#include <errno.h>
#include <stdio.h>

void snapshot_prepare(pid_t pid)
{
}

int snapshot_take(pid_t pid, pid_t tid, int continues, const struct snapshot_use *use,
		  struct snapshot *out, char *why, size_t n)
{
	snprintf(why, n, "it needs x86-64");
	return -EOPNOTSUPP;
}
