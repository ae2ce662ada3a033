/* SPDX-License-Identifier: MIT */
/* kernel_args.h - arguments and results of system calls, and facts about other events. */
#ifndef CLI_BREAK_KERNEL_ARGS_H
#define CLI_BREAK_KERNEL_ARGS_H

#include "report/dwarf/symbols.h"

#include <jansson.h>
#include <trapline/trapline.h>

struct kernel_values {
	struct symbols *s; /* of the process of the hit; NULL: its memory is not read */
	const struct trapline_hit *hit;
	enum trapline_kernel_event what;
	bool later;  /* becomes true when memory is read after the hit */
	bool missed; /* becomes true when the hit does not have a text */
};

/* The registers of C's convention that lead to text at a system call, one bit for each. */
uint32_t kernel_args_texts(int64_t number);

/* `fd=7`, `dirfd=AT_FDCWD, path="/etc/passwd", flags=O_RDONLY`; and as an object. */
void kernel_args_text(struct kernel_values *v, char *buf, size_t n);
json_t *kernel_args_json(struct kernel_values *v);

/* `-ENOENT`, `7`, `0x7f0000001000`. */
void kernel_result_text(int64_t number, uint64_t value, char *buf, size_t n);

#endif
