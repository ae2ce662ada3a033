/* SPDX-License-Identifier: MIT */
/* memory.h - pages straight from the kernel: usable where malloc is not. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <linux/mman.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sys.h"

#define PAGE_BYTES 4096u

/* Address or -errno as a pointer: use memory_failed(). */
static inline void *memory_map(size_t bytes)
{
	return (void *)sys6(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);
}

/* A large table, of which little may be used: the kernel does not account for it. */
static inline void *memory_map_sparse(size_t bytes)
{
	return (void *)sys6(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

/* A child by fork(2) has the same pages, not a copy. */
static inline void *memory_map_inherited(size_t bytes)
{
	return (void *)sys6(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			    -1, 0);
}

static inline void *memory_map_shared(size_t bytes, int writable, int fd, uint64_t offset)
{
	return (void *)sys_mmap(NULL, bytes, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED,
				fd, offset);
}

static inline void memory_unmap(void *p, size_t bytes)
{
	sys2(SYS_munmap, p, bytes);
}

/* Moves if it must; on failure the old mapping stays. */
static inline void *memory_remap(void *p, size_t old_bytes, size_t new_bytes)
{
	return (void *)sys4(SYS_mremap, p, old_bytes, new_bytes, MREMAP_MAYMOVE);
}

static inline int memory_failed(const void *p)
{
	return (uintptr_t)p >= (uintptr_t)-4095L;
}

static inline int memory_error(const void *p)
{
	return (int)(intptr_t)p;
}

#endif
