/* SPDX-License-Identifier: MIT */
/*
 * inject_file.h - a file without a name that was made in another process, which decides nothing.
 *
 * The process may have put another file at that number, or a filter of it may have answered the
 * call. So the descriptor is copied, with the rights that the process has by it, and what it is a
 * copy of is checked before anything is written.
 */
#ifndef INJECT_FILE_H
#define INJECT_FILE_H

#include <stdbool.h>
#include <sys/types.h>

struct held_thread;

/*
 * Copies descriptor fd of the thread: an empty file of memfd_create(2) with this name. -errno;
 * -EBADF: it is not.
 */
int file_copy(const struct held_thread *t, int fd, const char *name);
/* Its number becomes one that no program counts on. The new one; the old one where that fails. */
int file_move_up(struct held_thread *t, int fd, const char *name);
/* The size of the file stays as it is from now on; is_written: its bytes too. 0 or -errno. */
int file_seal(int fd, bool is_written);
/*
 * Closes it there. A program that closes all descriptors that it does not know may have another
 * file by that number, which stays open.
 */
void file_close(struct held_thread *t, int fd, const char *name);

#endif
