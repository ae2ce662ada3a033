/* SPDX-License-Identifier: MIT */
/*
 * files.h - symbols of a file rather than of a process: for records that outlive it.
 *
 * One file is opened once for all processes of a run, wherever they had it loaded, and what was
 * looked up once stays looked up.
 */
#ifndef REPORT_FILES_FILES_H
#define REPORT_FILES_FILES_H

#include "report/dwarf/symbols.h"

#include <stdbool.h>

/*
 * The symbols of one ELF file; symbols_place() and its like work on them, at *bias + the address in
 * the file. The name is as process root has it; root 0: as this process has it. Released by
 * symbols_close(). 0 or -errno.
 */
int files_open(const char *name, pid_t root, struct symbols **out, uint64_t *bias);
/* The same of a file that is open, which is closed; -1: it is opened by its name. */
int files_open_kept(const char *name, int fd, pid_t root, struct symbols **out, uint64_t *bias);

/* The build id of the file, in hexadecimal digits; empty: it has none. */
void files_build_id(struct symbols *s, char *text, size_t n);

/* What DWARF has of the code at an address. */
struct files_scope {
	int is_atomic;	   /* inlined from something called atomic: std::atomic<int>::load */
	int is_locking;	   /* part of a library that synchronises: see files_is_locking() */
	int function_line; /* where the function begins; 0: unknown */
};
/* 1: a function's name, as it is in the file or readable, is one of a library that makes locks,
 * queues or once-only initialisation out of plain loads and stores. */
int files_is_locking(const char *name);
void files_scope(struct symbols *s, uint64_t address, struct files_scope *out);

/* Where the source of the code at an address is, with its folder; false: not known. */
bool files_source(struct symbols *s, uint64_t address, char *path, size_t n);

/* How the variable at an address is declared; FILES_PLAIN also where that is not known. */
enum files_meant {
	FILES_PLAIN,
	FILES_VOLATILE, /* and not atomic */
	FILES_ATOMIC,
};
enum files_meant files_meant_by_variable(struct symbols *s, uint64_t address);

/*
 * 1: something that is called so in the code's compilation unit is: a member, a variable, a
 * parameter, or what it points to.
 */
int files_is_atomic_name(struct symbols *s, uint64_t address, const char *name);

#endif
