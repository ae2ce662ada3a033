/* SPDX-License-Identifier: MIT */
/*
 * reserved.h - text that a folder built on this one changes by itself. Pokes and traps of others
 * keep off it.
 */
#ifndef CODE_POKE_RESERVED_H
#define CODE_POKE_RESERVED_H

#include <stddef.h>
#include <stdint.h>

struct reserved_owner {
	/* Has the owner any of these bytes? Called with the lock held. */
	int (*has)(uint64_t address, size_t len);
	const char *why;
};

/* An owner makes itself known, before its first byte. Once more does no harm. */
void reserved_add_owner(const struct reserved_owner *owner);

/* Why the bytes are an owner's, or NULL. Lock held. */
const char *reserved_why(uint64_t address, size_t len);

#endif
