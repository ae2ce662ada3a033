/* SPDX-License-Identifier: MIT */
/* hit_frames.h - where a hit was, and who called whom until there. */
#ifndef CLI_HIT_FRAMES_H
#define CLI_HIT_FRAMES_H

#include "report/run.h"

#include <trapline/trapline.h>

/* after: ip is behind the instruction that is meant. The offset is ip's, as disassemblers show. */
void hit_place(struct symbols *s, uint64_t ip, bool after, struct place *out);

/* Each address with the functions that are inlined there; at most RUN_FRAMES_MAX. */
size_t hit_frames(struct symbols *s, const struct trapline_hit *hit,
		  struct run_frame *out);

#endif
