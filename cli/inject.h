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

#define INJECT_THREADS_MAX 4096

/*
 * Memory shared with the target: a file without a name that is made there, so that it needs to see
 * nothing of ours. take gets a descriptor of it here, before the call, and keeps it; 0 or -errno.
 */
struct inject_shared {
	const char *name;
	int (*take)(void *arg, int fd);
	void *arg;
};

/*
 * Loads the object at path (ours: it need not exist in the target's own file system), finds
 * function in it and calls it as int function(const char *argument). *result is what it returned.
 * 0 or -errno; then why says the reason in one line. The object stays loaded, and is loaded once: the
 * next call finds it there. With shared, "fd:N" of the target is put behind the argument; it is closed
 * after the call.
 */
int inject(pid_t pid, const char *path, const char *function, const char *argument,
	   const struct inject_shared *shared, int *result, char *why, size_t why_size);

/* A thread that had SIGTRAP blocked, and all that it had blocked then. */
struct inject_masked {
	pid_t tid;
	uint64_t mask;
};

/*
 * Lets threads take SIGTRAP that have it blocked for long; others are not touched, nor those that are
 * in a signal handler. Room for max; returns how many, or -errno. Threads that do not stop at once
 * stay as they are.
 */
int inject_unblock_trap(pid_t pid, struct inject_masked *threads, size_t max);
/* Blocks it again in these, as far as they are still there and have not changed their mask since. */
void inject_block_trap(pid_t pid, struct inject_masked *threads, size_t count);

#endif
