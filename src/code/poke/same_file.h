/* SPDX-License-Identifier: MIT */
/* same_file.h - the file of a mapping, opened again and mapped elsewhere: see same_file.c. */
#ifndef CODE_POKE_SAME_FILE_H
#define CODE_POKE_SAME_FILE_H

#include "code/poke/mapping.h"

/*
 * Bytes of the file from this offset on, mapped privately; or -errno as a pointer (base/memory.h).
 * -ENOENT: it cannot be opened, or another file has its name now.
 */
uint8_t *same_file_map(const struct mapping *mapping, uint64_t offset, uint64_t bytes,
		       int protection);

#endif
