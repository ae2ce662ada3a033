/* SPDX-License-Identifier: MIT */
/*
 * kernel_location.h - events of the kernel as users write them.
 *
 *   syscall:close, 'syscall:*at'	system calls
 *   fd:7				system calls that create, use or close the descriptor
 *   signal:SIGTERM, 'signal:*'		signals that are sent
 *   exec, fork, exit, oom		also kernel:exec ..., which cannot be taken for a function
 */
#ifndef CLI_BREAK_KERNEL_LOCATION_H
#define CLI_BREAK_KERNEL_LOCATION_H

#include "report/run/run_call.h"

#include <trapline/trapline.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KERNEL_EVENTS_MAX 16
#define KERNEL_NUMBERS_MAX 1024

/* One event of the library. */
struct kernel_wish {
	enum trapline_kernel_event what;
	bool is_wanted[KERNEL_NUMBERS_MAX];
	uint32_t numbers[KERNEL_NUMBERS_MAX];
	size_t count;
	/* Index in sites + 1 of each number; of a descriptor, of each system call. */
	uint16_t site[KERNEL_NUMBERS_MAX];
};

struct kernel_locations {
	struct kernel_wish *wish[KERNEL_EVENTS_MAX];
	size_t count;
	struct run_site *site;
	size_t site_count;
	size_t site_room;
	const char *bare; /* a location that may be a function too; NULL: none */
};

/* Is it such a location, right or wrong? */
bool kernel_location_is(const char *where);

/* 0, or -EINVAL or -ENOMEM with why. */
int kernel_locations_add(struct kernel_locations *l, const char *where, char *why, size_t n);
/* The site of a hit; NULL: none of these. */
const struct run_site *kernel_locations_site(const struct kernel_locations *l, size_t wish,
					     const struct trapline_hit *hit);
/* `2 system calls, 1 signal`. */
void kernel_locations_describe(const struct kernel_locations *l, char *buf, size_t n);
void kernel_locations_free(struct kernel_locations *l);

#endif
