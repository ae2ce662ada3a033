/* SPDX-License-Identifier: MIT */
/* patrol_share.c - see patrol_share.h. */
#include "cli/patrol/patrol_share.h"

#include "base/hash.h"

#include <stdio.h>

#define DAY_S 86400

uint64_t patrol_share_host(const char *machine_id, const char *name)
{
	uint64_t hash = hash_add(hash_text(HASH_START, name), 0);
	char text[64] = "";
	FILE *f = fopen(machine_id, "re");

	if (f && fgets(text, sizeof(text), f))
		hash = hash_text(hash, text);
	if (f)
		fclose(f);
	return hash_mixed(hash);
}

uint64_t patrol_share(uint64_t host, double now, uint64_t process)
{
	uint64_t day = now > 0 ? (uint64_t)now / DAY_S : 0;

	return hash_mixed(hash_step(hash_step(host, day), process));
}
