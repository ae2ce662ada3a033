/* SPDX-License-Identifier: MIT */
/* twin.h - a second mapping of pages of text, which the kernel can merge again: see twin.c. */
#ifndef CODE_POKE_TWIN_H
#define CODE_POKE_TWIN_H

#include "code/poke/mapping.h"

/*
 * The bytes at from, which mapping has, as the file has them. NULL: it cannot be had in this way.
 */
uint8_t *twin_map(const struct mapping *mapping, uint64_t from, uint64_t bytes);

/* These pages have been exchanged. was_opened: what is there was made writable before. */
void twin_note(uint64_t from, uint64_t bytes, int was_opened);

#endif
