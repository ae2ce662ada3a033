/* SPDX-License-Identifier: MIT */
/* threads.h - the threads of a process, and where their thread-local variables are. */
#ifndef REPORT_DWARF_THREADS_H
#define REPORT_DWARF_THREADS_H

#include "report/dwarf/symbols.h"

/*
 * The thread that the user means by an id or a name; NULL means the only one there is. 0, or
 * -errno with a sentence in why: -ESRCH none, -ENOTUNIQ several.
 */
int threads_choose(struct symbols *s, const char *wanted, pid_t *out, char *why, size_t n);

/*
 * The address of a thread-local variable: offset in the block of the object loaded at object. The
 * thread is not stopped: the C library's own tables are read, with its libthread_db.
 * 0, or -errno with a sentence in why.
 */
int threads_local(struct symbols *s, pid_t tid, uint64_t object, uint64_t offset, uint64_t *out,
		  char *why, size_t n);

#endif
