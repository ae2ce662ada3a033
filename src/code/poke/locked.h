/* SPDX-License-Identifier: MIT */
/* locked.h - whether mlock(2) keeps a mapping of this process in memory: see locked.c. */
#ifndef CODE_POKE_LOCKED_H
#define CODE_POKE_LOCKED_H

#include <stdint.h>

enum locked {
	LOCKED_NOT,
	LOCKED_ALL,
	LOCKED_ON_FAULT, /* MLOCK_ONFAULT, MCL_ONFAULT */
	LOCKED_UNKNOWN,
};

/* The mapping at this address. */
enum locked locked_at(uint64_t address);
/* 1: it could be written to once, or that is not known. The kernel merges it with no mapping that never could. */
int locked_is_accounted(uint64_t address);

/*
 * Locks it as said. Of what is locked it tells whether it could be unlocked and locked again: 0, or -errno, for
 * a limit that is lower by now.
 */
int locked_set(uint64_t address, uint64_t bytes, enum locked as);

#endif
