/* SPDX-License-Identifier: MIT */
/*
 * own_table.h - a descriptor table that is Trapline's, in a process that is not.
 *
 * A program counts on the lowest free number, and closefrom(3) of it closes what it does not know.
 * So what a tool keeps open is in a table of its own. One thread of Trapline has it, the server.
 * In a running process the loader of the attach has it too, and the threads that it starts. Other
 * threads ask the server for a system call, and wait: see own_fd_far() in base/sys.h.
 *
 * The server does what is short, and waits for no thread: a thread that waits for it may be inside
 * anything.
 */
#ifndef GUEST_OWN_TABLE_H
#define GUEST_OWN_TABLE_H

#include <stddef.h>

/*
 * Starts the server, or counts one more user of it. One caller at a time; not in a handler. 0; or
 * -errno, and all is in the program's table as before. -EUNATCH: the process is stopped, or has no
 * CPU.
 */
int own_table_begin(void);
/*
 * The last user ends the server, and all that is in the table is closed. In a thread of the table,
 * too.
 */
void own_table_end(void);
int own_table_is_open(void);
/* In a forked child, which has no server. */
void own_table_forked(void);

/* In the server: what run returns. -EBADF: there is no server, and it did not run. AS-Safe. */
long own_table_call(long (*run)(void *arg), void *arg);
/*
 * 1: the calling thread has the table, and so have the threads that it starts. The loader of an
 * attach lends its own, and is in it from own_table_begin() on.
 */
int own_table_is_here(void);
/*
 * First in a thread of Trapline, and last. is_here: of the thread that has started it. Otherwise it
 * takes a further table: what it opens for itself is there, and the rest it asks the server for.
 */
void own_table_enter(int is_here);
void own_table_leave(void);
/* The calling thread has another table than the program already, until own_table_leave(). */
void own_table_spare(void);

/*
 * The file of a descriptor of the calling thread, opened again in the table, for reading and
 * writing. Any thread uses the number. Or -errno.
 */
int own_table_take(int fd);
/*
 * The same file in the table that the calling thread has, for itself alone. A descriptor or -errno.
 */
int own_table_bring(int fd);
/* The folder in /proc with the descriptors of the table, for a thread that has another one. */
void own_table_folder(char *path, size_t bytes);

#endif
