/* SPDX-License-Identifier: MIT */
/* native_labels.c - see native_labels.h. */
#include "cond/native_labels.h"

uint32_t native_follow(const struct condition *c, uint32_t at, uint32_t *value)
{
	for (; at < c->count; at++) {
		const struct cond_step *step = &c->steps[at];

		if (step->op == COND_NOT)
			*value = !*value;
		else if (step->op == COND_JUMP_IF_0_KEEP && !*value)
			at = step->target - 1u;
		else if (step->op == COND_JUMP_IF_1_KEEP && *value)
			at = step->target - 1u;
		else if (step->op != COND_BOOL && step->op != COND_JUMP_IF_0_KEEP &&
			 step->op != COND_JUMP_IF_1_KEEP)
			return at;
	}
	return *value ? WAY_TRUE : WAY_FALSE;
}

void native_find_labels(const struct condition *c, uint8_t *is_label)
{
	for (uint32_t i = 0; i < c->count; i++) {
		const struct cond_step *step = &c->steps[i];
		uint32_t value = step->op == COND_JUMP_IF_1_KEEP;
		uint32_t to;

		if (step->op == COND_JUMP_IF_0 || step->op == COND_JUMP) {
			is_label[step->target] |= step->op == COND_JUMP ? 2 : 1;
		} else if (step->op == COND_JUMP_IF_0_KEEP || step->op == COND_JUMP_IF_1_KEEP) {
			to = native_follow(c, step->target, &value);
			if (to < WAY_TRUE)
				is_label[to] |= 2;
		}
	}
}
