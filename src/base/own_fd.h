/* SPDX-License-Identifier: MIT */
/*
 * own_fd.h - descriptors that are Trapline's in a process that is not.
 *
 * A program counts on the lowest free number, and closefrom(3) of it may close Trapline's: what it
 * opens next then has Trapline's number, and we would close it. So Trapline's are moved up at once,
 * to numbers that no program opens. AS-Safe.
 */
#ifndef BASE_OWN_FD_H
#define BASE_OWN_FD_H

/* They are from this number on, where the limit of the process permits it. 0: anywhere. */
extern int own_fd_lowest;

/* What it is for a tool that opens events in each thread: below, all numbers are the program's. */
#define OWN_FD_OF_EVENTS 600

/* A descriptor, or -errno, which passes through. */
int own_fd_up(int fd);
/* open(2) with O_CLOEXEC. The descriptor or -errno. */
int own_fd_open(const char *path, int flags);

#endif
