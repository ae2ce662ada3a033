/* SPDX-License-Identifier: MIT */
/*
 * own_table.h - a descriptor table that is Trapline's, in a process that is not.
 *
 * A program counts on the lowest free number, and closefrom(3) of it closes what it does not know.
 * So what a tool keeps open is in a table of its own. One thread of Trapline has it, the server,
 * and so have the threads that the server starts. Other threads ask the server for a system call,
 * and wait: see own_fd_far() in base/sys.h.
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
 * A thread in the table, as own_thread_start() has it; with the table of the caller if there is no
 * server.
 */
int own_table_start_thread(size_t stack_bytes, void *(*run)(void *), void *arg);
/*
 * First in such a thread, and last. The loader of an attach lends its table, and is in it from
 * own_table_begin() on.
 */
void own_table_enter(void);
void own_table_leave(void);

/*
 * The file of a descriptor of the calling thread, opened again in the table, for reading and
 * writing. Any thread uses the number. Or -errno.
 */
int own_table_take(int fd);
/* The folder in /proc with the descriptors of the table, for a thread that has another one. */
void own_table_folder(char *path, size_t bytes);
/*
 * The calling thread has another table than the program: what it opens for itself stays there. 0:
 * it has not.
 */
void own_table_spare(int is_spared);

#endif
