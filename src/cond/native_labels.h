/* SPDX-License-Identifier: MIT */
/* native_labels.h - where the jumps of a condition lead, seen through further jumps. */
#ifndef COND_NATIVE_LABELS_H
#define COND_NATIVE_LABELS_H

#include "cond/ir.h"

/* Where a jump goes. */
enum {
	WAY_TRUE = COND_STEPS_MAX + 1,
	WAY_FALSE,
	WAYS
};

/*
 * With this truth value on top, where does it go from step at? A way out, or a step and the value.
 */
uint32_t native_follow(const struct condition *c, uint32_t at, uint32_t *value);

/*
 * for each step: 1: jumped to; 2: with the top in rax They are found before the code is written:
 * they decide where values must be.
 */
void native_find_labels(const struct condition *c, uint8_t *is_label);

#endif
