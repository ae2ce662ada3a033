/* SPDX-License-Identifier: MIT */
/* agent_patch_init.c - see agent_patch_init.h. */
#include "agent/agent_patch_init.h"

#include <stddef.h>
#include <unistd.h>

typedef void (*initializer)(int argc, char **argv, char **environment);

void patch_initialize(const struct patch_region *r, uint64_t base)
{
	const initializer *array = (const initializer *)(base + r->init_array);
	char *none[] = { NULL };

	if (r->init)
		((initializer)(base + r->init))(0, none, environ);
	for (uint64_t i = 0; i < r->init_count; i++)
		array[i](0, none, environ);
}
