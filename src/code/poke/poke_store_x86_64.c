/* SPDX-License-Identifier: MIT */
/* poke_store_x86_64.c - which changes one store can make: see poke_store.h. */
#include <cpuid.h>

#include "code/poke/poke.h"
#include "code/poke/poke_store.h"

#define WORD_BYTES 8u

enum poke_promise poke_promise;

/*
 * AMD states that stores inside an aligned 8 bytes are fetched whole; Intel has an erratum
 * ("Unsynchronized Cross-Modifying Code Operations", JDK-8223613).
 */
static int is_amd(void)
{
	unsigned int a;
	unsigned int b;
	unsigned int c;
	unsigned int d;

	return __get_cpuid(0, &a, &b, &c, &d) &&
	       ((b == signature_AMD_ebx && c == signature_AMD_ecx && d == signature_AMD_edx) ||
		(b == 0x6f677948 && d == 0x6e65476e && c == 0x656e6975));
}

int poke_stores_are_promised(void)
{
	if (poke_promise == PROMISE_UNKNOWN)
		poke_promise = is_amd() ? PROMISE_STORES : PROMISE_NONE;
	return poke_promise == PROMISE_STORES;
}

static int is_one_word(uint64_t first, uint64_t last)
{
	return first / WORD_BYTES == last / WORD_BYTES;
}

int poke_can_store(const struct poke_entry *entry, uint32_t flags)
{
	uint64_t first = entry->address;
	uint64_t last = entry->address + 1;

	if (!poke_stores_are_promised() || (flags & TRAPLINE_POKE_SPIN && entry->len < 2))
		return 0;
	if (flags & TRAPLINE_POKE_SINGLE_STORE) {
		last = entry->address + entry->len - 1;
		while (first < last && entry->before[first - entry->address] ==
					       entry->after[first - entry->address])
			first++;
		while (last > first &&
		       entry->before[last - entry->address] == entry->after[last - entry->address])
			last--;
	}
	return is_one_word(first, last);
}
