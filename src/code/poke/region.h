/* SPDX-License-Identifier: MIT */
/* region.h - memory for generated code, mapped twice. */
#ifndef CODE_POKE_REGION_H
#define CODE_POKE_REGION_H

#include "code/poke/poke.h"
#include <stddef.h>

int region_alloc(uint64_t near, size_t bytes, void **out, struct code_problem *problem);
int region_free(void *code);
int region_write(void *code, const void *bytes, size_t n, struct code_problem *problem);
/* The alias of [address, address + len), writable until region_seal(), or NULL. */
uint8_t *region_alias(uint64_t address, size_t len);
void region_seal(void);
/* The same bytes by the kernel, without a change of protections. 0 or -errno: use the alias. */
int region_store(uint64_t address, const void *bytes, size_t len);
int region_has(uint64_t address);
/*
 * A copy of all memory of the region that address is in, and there the address, for len bytes;
 * NULL: none. Then it replaces the region at once, for all threads: 0 or -errno. Lock held from one
 * to other.
 */
uint8_t *region_copy_begin(uint64_t address, size_t len);
int region_copy_end(void);
/* 1: a forked child that could not get a copy of its own. It must not be written. */
int region_is_lost(uint64_t address);
/* What the handler knows of the regions. */
#define REGION_MAX 256
struct region_range {
	uint64_t start;
	uint64_t bytes;
};
extern struct region_range region_ranges[REGION_MAX];
extern int region_is_forking;
void region_before_fork(void);
void region_after_fork_in_parent(void);
void region_after_fork_in_child(void);
/* Map bytes somewhere free within reach of near (0: anywhere). Address or -errno. */
int64_t region_find(uint64_t near, size_t bytes, int protection, int flags, int fd);

#endif
