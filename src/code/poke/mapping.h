/* SPDX-License-Identifier: MIT */
/* mapping.h - what is mapped at an address of this process: see mapping.c. */
#ifndef CODE_POKE_MAPPING_H
#define CODE_POKE_MAPPING_H

#include <limits.h>
#include <stdint.h>

struct mapping {
	uint64_t start;
	uint64_t end;
	uint64_t offset; /* of start, in the file */
	uint64_t inode;	 /* 0: not of a file */
	uint32_t major;
	uint32_t minor;
	int protection;
	int is_shared;
	char name[PATH_MAX];
};

/* 0, -ENOENT: nothing is mapped there, or -EACCES. Leaves errno alone. Under poke_lock. */
int mapping_find(uint64_t address, struct mapping *out);
/* Closes what it keeps open for the next call: behind a change, and in a forked child. */
void mapping_forget(void);

#endif
