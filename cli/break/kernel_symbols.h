/* SPDX-License-Identifier: MIT */
/*
 * kernel_symbols.h - names of code in the process of a hit, which may be any, and the location
 * behind a system call.
 */
#ifndef CLI_BREAK_KERNEL_SYMBOLS_H
#define CLI_BREAK_KERNEL_SYMBOLS_H

#include "cli/observe/target_names.h"
#include "report/dwarf/symbols.h"

#include <trapline/trapline.h>

#define KERNEL_PROCESSES_MAX 256

struct kernel_process {
	pid_t pid; /* 0: free */
	char name[16];
	struct target_name at;	 /* by the kernel's records; else: */
	struct symbols *symbols; /* NULL: not known */
	struct symbols *now;	 /* at the last hit: one of these */
	uint64_t layout;	 /* of the program that the symbols are of */
	uint64_t looked_ns;
	uint64_t used_ns;
};

struct kernel_symbols {
	struct symbols *first; /* of the process that the run began with */
	uint64_t first_layout;
	struct symbols *nameless;
	struct target_names names;
	struct kernel_process process[KERNEL_PROCESSES_MAX];
	uint64_t without_names; /* processes that had ended */
};

/* is_any: hits may be of any process of the system. 0 or -ENOMEM. */
int kernel_symbols_begin(struct kernel_symbols *k, struct symbols *first, pid_t pid, bool is_any);
/* Valid until the next call. */
struct kernel_process *kernel_symbols_of(struct kernel_symbols *k, const struct trapline_hit *hit);
/* Call this between hits. */
void kernel_symbols_look(struct kernel_symbols *k);
/* The code that asked for the system call, behind the functions of libraries; 0: not known. */
uint64_t kernel_symbols_caller(struct symbols *s, const struct trapline_hit *hit);
void kernel_symbols_end(struct kernel_symbols *k);

#endif
