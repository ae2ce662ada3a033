/* SPDX-License-Identifier: MIT */
/*
 * late_prologue.h - a jump behind the first instructions of a function, where its entry has no
 * room.
 *
 * What is before it may push registers and compute in those that are not used yet. A thread that
 * takes the jump undoes the pushes, and is as at the entry. The original function begins with a
 * copy of these instructions, and continues at the jump.
 */
#ifndef GUEST_LATE_PROLOGUE_H
#define GUEST_LATE_PROLOGUE_H

#include <stdbool.h>
#include <stdint.h>

#define PROLOGUE_BYTES 24u

struct late_prologue {
	uint64_t entry;
	uint32_t bytes; /* before the jump */
	uint8_t copy[PROLOGUE_BYTES];
	uint32_t undo_bytes;
	uint8_t undo[PROLOGUE_BYTES];
	uint32_t pushed; /* registers, by DWARF number */
};

/*
 * One instruction more is before the jump. false: it cannot be, or a branch of the function leads
 * there.
 */
bool late_prologue_step(struct late_prologue *p);

/*
 * The code for it: *to_guard undoes, and goes to the guard; *original has the copy, and goes to
 * resume. It stays for ever. 0 or -errno.
 */
int late_prologue_code(const struct late_prologue *p, uint64_t guard, uint64_t resume,
		       uint64_t *to_guard, uint64_t *original);

#endif
