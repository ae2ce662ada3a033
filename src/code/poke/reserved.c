/* SPDX-License-Identifier: MIT */
/* reserved.c - see reserved.h: the folders above are known by their functions alone. */
#include "code/poke/reserved.h"

#include "base/atomic.h"

#define OWNERS_MAX 4

static const struct reserved_owner *owners[OWNERS_MAX];

void reserved_add_owner(const struct reserved_owner *owner)
{
	for (int i = 0; i < OWNERS_MAX; i++) {
		const struct reserved_owner *found = NULL;

		if (atomic_cas(&owners[i], &found, owner) || found == owner)
			return;
	}
}

const char *reserved_why(uint64_t address, size_t len)
{
	for (int i = 0; i < OWNERS_MAX; i++) {
		const struct reserved_owner *owner = atomic_get(&owners[i]);

		if (!owner)
			return NULL;
		if (owner->has(address, len))
			return owner->why;
	}
	return NULL;
}
