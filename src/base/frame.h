/* SPDX-License-Identifier: MIT */
/*
 * frame.h - is an interrupted context inside a handler's frame that was recorded before?
 *
 * A callback that was left by siglongjmp never returned to clear the note. It is stale when the
 * interrupted code is above the recorded frame, or on another stack than the signal stack that
 * the frame was on.
 */
#ifndef BASE_FRAME_H
#define BASE_FRAME_H

#include <stdint.h>
#include <ucontext.h>

static inline uintptr_t frame_sp(const ucontext_t *context)
{
#if defined(__x86_64__)
	return (uintptr_t)context->uc_mcontext.gregs[REG_RSP];
#else
	return (uintptr_t)context->uc_mcontext.sp;
#endif
}

static inline int frame_is_inside(const void *noted, const ucontext_t *context)
{
	uintptr_t frame = (uintptr_t)noted;
	uintptr_t sp = frame_sp(context);
	uintptr_t alt = (uintptr_t)context->uc_stack.ss_sp;
	size_t alt_bytes = context->uc_stack.ss_size;
	int frame_on_alt = alt_bytes && frame - alt < alt_bytes;
	int sp_on_alt = alt_bytes && sp - alt < alt_bytes;

	return frame_on_alt == sp_on_alt && sp < frame;
}

#endif
