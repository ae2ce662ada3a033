/* SPDX-License-Identifier: MIT */
/* branches_arm64.c - see branches.h. */
#include "event/branches.h"

/* BR_RETIRED: all of them; interrupts are not among these on arm64. */
#define ARM_RETIRED_BRANCHES 0x21

int branches_conditional(uint64_t *config)
{
	*config = ARM_RETIRED_BRANCHES;
	return 0;
}
