/* SPDX-License-Identifier: MIT */
/*
 * memory.h - memory and vector registers at a hit. <trapline/trapline.h> includes it.
 */
#ifndef TRAPLINE_MEMORY_H
#define TRAPLINE_MEMORY_H

#include <trapline/trapline.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TRAPLINE_MEMORY_MAX 128 /* of an event */
#define TRAPLINE_MEMORY_LINKS 9
#define TRAPLINE_MEMORY_BYTES 256
/* trapline_memory.reg: base is an address. */
#define TRAPLINE_MEMORY_ABSOLUTE UINT32_MAX
/* trapline_memory.reg: at returns, the register of the first argument, as it was at the call. */
#define TRAPLINE_MEMORY_CALL (UINT32_MAX - 1)
/* trapline_memory.flags: copy up to a NUL; copy at returns (TRAPLINE_RETURNS), not at calls. */
#define TRAPLINE_MEMORY_TEXT 1u
#define TRAPLINE_MEMORY_RETURN 2u

/*
 * Memory that a BPF program copies at a hit. The address is the register with the DWARF number reg,
 * plus base. For each link the pointer there is copied too, and its value plus the offset of the
 * link is the next address. At the last one so many bytes are copied. What cannot be read has no
 * copy, nor has what is beyond 8 KiB of one hit or 400 pointers and copies of the event.
 */
struct trapline_memory {
	/* It is one of addrs of trapline_break_sites(), or 0: each of them. */
	uint64_t site;
	uint64_t base;
	uint32_t reg;
	uint32_t flags;
	uint32_t bytes;
	uint32_t links;
	uint64_t offsets[TRAPLINE_MEMORY_LINKS];
};

/*
 * trapline_hit_memory - find the memory at an address as it was at the hit.
 *
 * *out has *n bytes, at least 1, from the copies of opts.memory, opts.texts or the stack. They are
 * valid as long as the hit. Errors: ENODATA the hit has no copy of that address. MT-Safe. AS-Safe.
 */
TRAPLINE_API int trapline_hit_memory(const struct trapline_hit *hit, uint64_t address,
				     const void **out, size_t *n);

/*
 * trapline_hit_vector - read the low 16 bytes of a vector register at the hit, x86-64 only.
 *
 * number is that of the register: 0 for xmm0, to 15. Callbacks have all of them, by
 * whichever mechanism the hit came. A record of the kernel has none.
 * Errors: EINVAL there is no such register; ENODATA the hit does not have it. MT-Safe.
 * AS-Safe.
 */
TRAPLINE_API int trapline_hit_vector(const struct trapline_hit *hit, unsigned int number,
				     uint64_t out[2]);

#ifdef __cplusplus
}
#endif

#endif
