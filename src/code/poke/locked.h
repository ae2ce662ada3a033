/* SPDX-License-Identifier: MIT */
/* locked.h - whether mlock(2) keeps a mapping of this process in memory: see locked.c. */
#ifndef CODE_POKE_LOCKED_H
#define CODE_POKE_LOCKED_H

#include "code/poke/mapping.h"

enum locked {
	LOCKED_NOT,
	LOCKED_ALL,
	LOCKED_ON_FAULT, /* MLOCK_ONFAULT, MCL_ONFAULT */
	LOCKED_UNKNOWN,	 /* or it could not be locked again, for a limit that is lower by now */
};

/* The page, and one beside it in its mapping. */
struct locked_part {
	uint64_t start;
	uint64_t bytes;
};
struct locked_part locked_part_of(const struct mapping *mapping, uint64_t page);

/* A mapping that has this page. Under poke_lock. */
enum locked locked_find(const struct mapping *mapping, uint64_t page);
/* Behind a change. */
void locked_forget(void);
/* Locks it as stated. 0 or -errno. */
int locked_set(uint64_t address, uint64_t bytes, enum locked as);

#endif
