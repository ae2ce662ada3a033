/* SPDX-License-Identifier: MIT */
/* slot.h - copies of instructions, which are never freed. */
#ifndef CODE_POKE_SLOT_H
#define CODE_POKE_SLOT_H

#include <stddef.h>
#include <stdint.h>

/* The instructions of len bytes as if at address, somewhere within reach, with a jump behind. */
int slot_copy(uint64_t address, const uint8_t *bytes, size_t len, uint64_t *out, const char **why);

#endif
