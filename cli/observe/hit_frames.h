/* SPDX-License-Identifier: MIT */
/* hit_frames.h - the function and line of a hit, and its call stack. */
#ifndef CLI_OBSERVE_HIT_FRAMES_H
#define CLI_OBSERVE_HIT_FRAMES_H

#include "report/run/run.h"

#include <trapline/trapline.h>

/* after: ip is that of the next instruction. The offset is that of ip, as disassemblers show it. */
void hit_place(struct symbols *s, uint64_t ip, bool after, struct place *out);

/*
 * The frames of return addresses, innermost first; out has room for RUN_FRAMES_MAX. after: the
 * first address is a return address too, or the end of the instruction that is meant.
 */
size_t frames_of(struct symbols *s, const uint64_t *ips, size_t n, bool after,
		 struct run_frame *out);

/* The frames with the functions that are inlined in them; at most RUN_FRAMES_MAX. */
size_t hit_frames(struct symbols *s, const struct trapline_hit *hit, struct run_frame *out);

#endif
