/* SPDX-License-Identifier: MIT */
/*
 * probe_jump.h - a jump instead of one instruction, however short.
 *
 * On arm64 it is as long as the instruction. The rest is about x86-64, where it has five bytes.
 *
 * A thread may be between any two instructions, asleep for as long as it likes. So no more than the
 * first instruction changes: where it has fewer than five bytes, what follows it stays, and is the
 * rest of the displacement. That decides where the jump leads, and a landing pad is put there.
 *
 * If memory permits, the jump differs from the instruction in its first byte only: then uprobes of
 * other tools may come and go there.
 *
 * A debugger may put its breakpoint on one of the instructions behind. That changes the
 * displacement, so there is a pad for each way to do so. The thread reaches the same location, and
 * to the breakpoint afterwards.
 */
#ifndef CODE_PROBE_PROBE_JUMP_H
#define CODE_PROBE_PROBE_JUMP_H

#include <stddef.h>
#include <stdint.h>

#include "code/poke/poke_view.h"

#define JUMP_BYTES CODE_JUMP_BYTES

struct probe_jump {
	uint8_t len; /* so many bytes of text change: the first instruction */
	uint8_t before[SITE_MAX];
	uint8_t after[SITE_MAX]; /* the whole jump, also where it ends behind len */
};

/* An int3 of another tool is there, or what the kernel makes of a nop below a uprobe. Lock held. */
int probe_jump_is_busy(uint64_t address, const uint8_t *text, size_t available);

/*
 * The jump from address to target, whose pads are placed. text are the bytes there. With may_crowd
 * a pad may lie where the heap would grow in a while, if there is no other way. 0; -ENOSPC: none
 * can be had there, with *why; -EINVAL: no instruction; -EACCES, -ENOMEM. Lock held.
 */
int probe_jump_make(uint64_t address, const uint8_t *text, size_t available, uint64_t target,
		    int may_crowd, struct probe_jump *out, const char **why);

#endif
