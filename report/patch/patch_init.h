/* SPDX-License-Identifier: MIT */
/* patch_init.h - the initializers of an object, apart from it. */
#ifndef REPORT_PATCH_PATCH_INIT_H
#define REPORT_PATCH_PATCH_INIT_H

#include <gelf.h>
#include <stddef.h>
#include <stdint.h>

/* Addresses count from the begin of the object. 0: it has none. */
struct patch_init {
	uint64_t function; /* DT_INIT */
	uint64_t array;	   /* DT_INIT_ARRAY */
	uint64_t count;
};

/*
 * A copy of the object without its initializers: the loader runs none. elf is of the object, whose
 * file fd is. The descriptor of the copy, which the caller closes; or -errno.
 */
int patch_init_take(Elf *elf, int fd, size_t size, struct patch_init *out);

#endif
