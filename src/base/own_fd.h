/* SPDX-License-Identifier: MIT */
/*
 * own_fd.h - descriptors that are Trapline's in a process that is not.
 *
 * A program counts on the lowest free number. Its closefrom(3) may close a descriptor of Trapline:
 * what it opens next then has that number, and Trapline would close it. So Trapline's are in a
 * table of their own (guest/own_table.h) where there is one. Elsewhere they are moved up at once,
 * to numbers that no program opens. AS-Safe.
 */
#ifndef BASE_OWN_FD_H
#define BASE_OWN_FD_H

/*
 * Without a table of Trapline they are from this number on, where the limit of the process permits
 * it. 0: anywhere.
 */
extern int own_fd_lowest;

/* As many as the table of the agent needs beside those of a tool. */
#define OWN_FD_OF_TABLE 32
/* What it is for a tool that opens events in each thread: below, all numbers are the program's. */
#define OWN_FD_OF_EVENTS 600

/*
 * A number from here on is in Trapline's own table. Each thread may use it in the functions of
 * base/sys.h. The kernel knows no such number, so it is never one of the program's.
 */
#define OWN_FD_FAR (1 << 30)

struct own_fd_call {
	long number;
	long args[6];
};

struct own_fd_table {
	/*
	 * A thread of the table makes the call. What the call returned; -EBADF: there is no table
	 * any more.
	 */
	long (*make)(const struct own_fd_call *call);
	/* A thread of the table runs it, which may not wait for another thread. As make. */
	long (*call)(long (*run)(void *arg), void *arg);
	/* 1: the calling thread has this table. */
	int (*is_here)(void);
	/* 1: what the calling thread opens for itself is in no table of the program's. */
	int (*is_spared)(void);
};

extern const struct own_fd_table *own_fd_table; /* NULL: all is in the program's */

/*
 * For a descriptor that the calling thread has just opened, or -errno, which passes through: the
 * number for any thread.
 */
int own_fd_up(int fd);
/*
 * open(2) with O_CLOEXEC, for the calling thread, which closes it soon. The descriptor or -errno.
 */
int own_fd_open(const char *path, int flags);
/*
 * A system call that makes a descriptor which any thread may use later. The descriptor or -errno.
 */
int own_fd_keep(long number, long a, long b, long c, long d, long e);
/*
 * run is about descriptors of the table: it runs where they are near. What it returns, or -EBADF.
 */
long own_fd_run(long (*run)(void *arg), void *arg);
/*
 * A system call about the file of number fd, which is in the table: see sys_of_fd() and sys_mmap().
 */
long own_fd_far(long number, int fd, long b, long c, long d, long e);
long own_fd_far_map(long address, long bytes, long protection, long flags, int fd, long offset);

#endif
