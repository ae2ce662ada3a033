/* SPDX-License-Identifier: MIT */
/* outside_emit.h - what the two BPF programs of a search from outside have in common. */
#ifndef OUTSIDE_EMIT_H
#define OUTSIDE_EMIT_H

#include "outside/outside_program.h"
#include "outside/outside_shared.h"

#include <stddef.h>

/* The registers that a program has them in. */
#define CONTEXT R6
#define TRAP R7	  /* at a site: struct outside_trap */
#define SHARED R8 /* struct outside_shared */
#define SLOT R9

/* Below R10. */
enum {
	AT_IDS = -8,
	AT_WORD = -16,
	AT_ADDRESS = -24,
	AT_PART = -32,
	AT_LEN = -40,
	AT_UNTIL = -48,
	AT_BEGAN = -56,
	AT_STACK = -64,
	AT_STATE = -72,
	AT_REGS = -240, /* RECORD_REGS and one that is 0 */
};

#define SHARED_AT(member) ((int16_t)offsetof(struct outside_shared, member))
#define COUNT_AT(which) ((int16_t)(SHARED_AT(counts) + 8 * (which)))
#define SLOT_AT(member) ((int16_t)offsetof(struct outside_slot, member))
#define TRAP_AT(member) ((int16_t)offsetof(struct outside_trap, member))
#define SIDE_AT(member) ((int16_t)offsetof(struct outside_side, member))

void outside_emit_end(struct ebpf *p);
void outside_emit_count(struct ebpf *p, enum outside_count which);
/* A jump that is taken: the program counts and ends. */
void outside_emit_end_if(struct ebpf *p, int op, int dst, int32_t imm, enum outside_count which);
/* The program ends in other processes. */
void outside_emit_process(struct ebpf *p, const struct outside_maps *maps);
/* R0: 16 bytes of the thread, or NULL. */
void outside_emit_note(struct ebpf *p, const struct outside_maps *maps, int may_create);
/* The state goes from `from` to `to` in one step; R0 is what was there. */
void outside_emit_exchange(struct ebpf *p, enum outside_state from, enum outside_state to);
void outside_emit_wake(struct ebpf *p, const struct outside_maps *maps);
/* R0: the watched bytes. A jump, to be landed, that is taken where they cannot be read. */
uint32_t outside_emit_value(struct ebpf *p);
/* A side of a pair. The register `side` has it, and is one that is kept over calls. */
void outside_emit_side(struct ebpf *p, int side);
void outside_emit_side_ends(struct ebpf *p, int side);

#endif
