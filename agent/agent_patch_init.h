/* SPDX-License-Identifier: MIT */
/* agent_patch_init.h - the initializers of a patch, which the loader did not see. */
#ifndef AGENT_PATCH_INIT_H
#define AGENT_PATCH_INIT_H

#include <stdint.h>

#include "record/patch_region.h"

/*
 * Runs them as the loader does, of an object that begins at base. What they open is the program's:
 * so in a thread that has its table of descriptors, as all of the object does.
 */
void patch_initialize(const struct patch_region *r, uint64_t base);

#endif
