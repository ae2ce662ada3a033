/* SPDX-License-Identifier: MIT */
/* race_birth.h - the creation of a thread counts as a sample. race.h has what the agent calls. */
#ifndef RACE_BIRTH_H
#define RACE_BIRTH_H

#include <stdint.h>

/* Never set to zero: creation of a thread may be under way when the search begins. */
struct race_births {
	uint64_t begun;
	uint64_t ended;
};
extern struct race_births race_births;

#endif
