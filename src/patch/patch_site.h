/* SPDX-License-Identifier: MIT */
/*
 * patch_site.h - the jumps at old functions, which come and go. All of it holds the lock of
 * patches.
 */
#ifndef PATCH_PATCH_SITE_H
#define PATCH_PATCH_SITE_H

#include "code/poke/poke.h"
#include "patch/patch_gate.h"

#define PATCH_SITES_MAX 8192u

enum patch_way {
	PATCH_WAY_OLD,
	PATCH_WAY_NEW,
	PATCH_WAY_GATE
};

/*
 * Put the jump at address. It leads to the old function at first. With may_trap an int3 is put
 * where no jump can be had: it has no gate. 0; -EBUSY: it is another patch's; errors as
 * code_probe_open().
 */
int patch_site_open(uint64_t address, int may_trap, struct patch_site **out,
		    struct code_problem *problem);
/* Where it leads from now on. */
void patch_site_lead(struct patch_site *site, enum patch_way way);
/* Restore the instruction. Its patch is taken from it before. */
int patch_site_close(struct patch_site *site, struct code_problem *problem);
/* Until no thread inspects the patch it had. 0; -EBUSY: one does, and has for a while. */
int patch_site_settle(const struct patch_site *site);

#endif
