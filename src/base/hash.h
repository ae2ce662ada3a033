/* SPDX-License-Identifier: MIT */
/*
 * hash.h - two hashes, for all that needs one.
 *
 * FNV-1a gives a name to a sequence: the same bytes have the same one in each run, so it may be
 * written to a file. HASH_MIX spreads a number over the rows of a table: its upper bits depend on
 * all bits of the number.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* A sequence begins with this hash. */
#define HASH_START 0xcbf29ce484222325u
#define HASH_PRIME 0x100000001b3u
/* 2^64 divided by the golden ratio. */
#define HASH_MIX 0x9e3779b97f4a7c15u

/* The last step of splitmix64: each bit depends on all bits of the number. */
static inline uint64_t hash_mixed(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* A sequence of numbers for a table in memory: cheaper than a byte each, and for no file. */
static inline uint64_t hash_step(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * HASH_MIX;
	return hash ^ hash >> 29;
}

static inline uint64_t hash_add(uint64_t hash, uint64_t value)
{
	return (hash ^ value) * HASH_PRIME;
}

static inline uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n)
{
	for (const uint8_t *at = bytes; n--; at++)
		hash = hash_add(hash, *at);
	return hash;
}

/* Without the end of the text. */
static inline uint64_t hash_text(uint64_t hash, const char *text)
{
	for (; *text; text++)
		hash = hash_add(hash, (unsigned char)*text);
	return hash;
}

#endif
