/* SPDX-License-Identifier: MIT */
/* inject_none.c - where code is not loaded into a running process: see inject.c. */
#include "cli/inject/inject.h"
#include "cli/inject/inject_thread.h"

#include <errno.h>
#include <stdio.h>

int inject(pid_t pid, const char *path, const char *function, const char *argument,
	   const struct inject_shared *shared, int *result, char *why, size_t why_size)
{
	snprintf(why, why_size, "code is loaded into running processes on x86-64 only");
	return -EOPNOTSUPP;
}

int inject_check(pid_t pid, char *why, size_t why_size)
{
	return inject(pid, NULL, NULL, NULL, NULL, NULL, why, why_size);
}

void inject_note_markers(pid_t pid)
{
}

size_t inject_find_blocked(pid_t pid, struct inject_masked *threads, size_t max)
{
	return 0;
}

size_t inject_unblock_trap(pid_t pid, struct inject_masked *threads, size_t count)
{
	return 0;
}

void inject_block_trap(pid_t pid, struct inject_masked *threads, size_t count)
{
}

long held_syscall(struct held_thread *t, long number, const uint64_t args[6])
{
	return -ENOSYS;
}

void inject_until(bool (*is_over)(void))
{
}

void inject_mask_of(int signal, int marker)
{
}
