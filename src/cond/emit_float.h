/* SPDX-License-Identifier: MIT */
/* emit_float.h - arithmetic of doubles in eBPF: functions that a program calls. */
#ifndef COND_EMIT_FLOAT_H
#define COND_EMIT_FLOAT_H

#include "base/ebpf.h"

enum float_function {
	FLOAT_ADD,	/* R1 + R2 */
	FLOAT_MULTIPLY, /* R1 * R2 */
	FLOAT_DIVIDE,	/* R1 / R2 */
	FLOAT_FROM,	/* the whole number R1, with the sign R2; R3: SOFT_WHOLE */
	FLOAT_WIDEN,	/* the float R1 */
	FLOAT_ROUND,	/* a float: the double R1 */
	FLOAT_WHOLE,	/* a whole number: the double R1, which the type has */
	FLOAT_FUNCTION_COUNT
};

/* The result is in R0; R6 to R10 stay. */
void float_call(struct ebpf *p, enum float_function function);

#endif
