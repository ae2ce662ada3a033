/* SPDX-License-Identifier: MIT */
/*
 * hit_insn.h - which instruction made the access that a watch of this process reported. In its
 * callback.
 */
#ifndef CORE_HIT_INSN_H
#define CORE_HIT_INSN_H

#include <trapline/trapline.h>

#include "code/insn/insn_back.h"

#define HIT_CODE_BEFORE 96u
#define HIT_CODE_AFTER 16u

/* Code around the pc of a hit. */
struct hit_code {
	uint8_t bytes[HIT_CODE_BEFORE + HIT_CODE_AFTER];
	uint64_t start;
	size_t count; /* 0: it cannot be read */
};

/* after: the registers at the hit. *code is the instruction that was found. AS-Safe. */
void hit_insn_find(const struct trapline_hit *hit, const struct insn_regs *after,
		   struct hit_code *code, struct insn_back *out);

#endif
