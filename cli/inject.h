/* SPDX-License-Identifier: MIT */
/*
 * inject.h - load an object into a running process and call a function of it there.
 *
 * One thread is stopped for the time of the call, some milliseconds; the others run on. It must
 * stand where the dynamic linker and the allocator can be entered: not inside either of them.
 */
#ifndef CLI_INJECT_H
#define CLI_INJECT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Loads the object at path (ours: it need not exist in the target's own file system), finds
 * function in it and calls it as int function(const char *argument). *result is what it returned.
 * 0 or -errno; then why says the reason in one line. The object stays loaded.
 */
int inject(pid_t pid, const char *path, const char *function, const char *argument, int *result,
	   char *why, size_t why_size);

#endif
