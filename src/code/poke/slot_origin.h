/* SPDX-License-Identifier: MIT */
/* slot_origin.h - which instruction a copy stands for. */
#ifndef CODE_POKE_SLOT_ORIGIN_H
#define CODE_POKE_SLOT_ORIGIN_H

#include <stdint.h>

#define SLOT_BYTES 64u
#define SLOT_ARENA_BYTES (256u << 10)
#define SLOT_ARENAS 1024
struct slot_arena {
	uint64_t start;
	uint32_t used;
};
extern struct slot_arena slot_arenas[SLOT_ARENAS]; /* never given back */
extern uint32_t slot_arena_count;

/*
 * A pc inside the copy of an instruction: where it would be without the trap. 0: no copy. In a
 * handler too.
 */
uint64_t slot_origin(uint64_t pc);

#endif
