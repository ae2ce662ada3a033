/* SPDX-License-Identifier: MIT */
/*
 * inject.h - load an object into a running process and call a function of it there.
 *
 * One thread is stopped during the call, for some milliseconds; the others continue. It
 * must be where the dynamic linker and the allocator can be entered, that is, inside
 * neither of them.
 */
#ifndef CLI_INJECT_INJECT_H
#define CLI_INJECT_INJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define INJECT_THREADS_MAX 4096

/*
 * Memory shared with the target: a file without a name that is made in the target, which
 * therefore needs no access to the files of trapline. take gets a descriptor of it,
 * before the call, and keeps it. It returns 0 or -errno.
 */
struct inject_shared {
	const char *name;
	int (*take)(void *arg, int fd);
	void *arg;
	/*
	 * A second file that the target gets, with the bytes of object_fd, and that cannot be
	 * changed any more. object_name is its name there, or NULL.
	 */
	const char *object_name;
	int object_fd;
	/*
	 * The function, and all threads that begin in it, have a descriptor table of their own: no
	 * other thread of the target uses a descriptor of theirs.
	 */
	bool has_own_files;
	/*
	 * The argument of a second call if the first returned 0: in the stopped thread itself.
	 * NULL: none.
	 */
	const char *then;
};

/*
 * Loads the object at path, finds function in it and calls it as int function(const char
 * *argument). The path is one of this process; it need not exist in the target's file
 * system. *result is what the function returned. Returns 0, or -errno with the reason in
 * why, as one line. The object stays loaded, and the next call finds it there. With
 * shared, "fd:N" of the target is appended to the argument, and ",M" for the second file; these
 * descriptors are closed after the call.
 */
int inject(pid_t pid, const char *path, const char *function, const char *argument,
	   const struct inject_shared *shared, int *result, char *why, size_t why_size);

/*
 * What is known beforehand of why inject() would fail: 0, or -errno with the reason. Nothing is
 * touched.
 */
int inject_check(pid_t pid, char *why, size_t why_size);

/*
 * inject() ends with -ECANCELED when is_over returns true, at the next of its steps. A call that it
 * waits for continues in the target, whose thread continues by itself when it has returned.
 */
void inject_until(bool (*is_over)(void));

/* A thread that had SIGTRAP blocked, and its whole signal mask at that time. */
struct inject_masked {
	pid_t tid;
	uint64_t mask;
};

/*
 * These functions are about another signal than SIGTRAP from now on. marker: blocked where it is
 * unblocked, as the agent in the process has it (base/marker.h); 0: none.
 */
void inject_mask_of(int signal, int marker);
/*
 * Before a thread gets a marker: the masks that have it are the program's own.
 * inject_find_blocked() does it, too.
 */
void inject_note_markers(pid_t pid);
/*
 * The threads that have SIGTRAP blocked for long, without a marker except those in a signal
 * handler; it takes 20 ms if one has it blocked at all. threads has room for max. Returns how many.
 */
size_t inject_find_blocked(pid_t pid, struct inject_masked *threads, size_t max);
/*
 * Unblocks SIGTRAP in these threads, unless they have changed their mask since. Returns how many,
 * which are the first of threads then. A thread that does not stop at once, or is traced, keeps its
 * mask.
 */
size_t inject_unblock_trap(pid_t pid, struct inject_masked *threads, size_t count);
/*
 * Blocks SIGTRAP again in these threads, unless they have ended or changed their mask since. With a
 * marker also in those that were created since, which have it from their creator. A mask that had
 * the marker before is the program's.
 */
void inject_block_trap(pid_t pid, struct inject_masked *threads, size_t count);

#endif
