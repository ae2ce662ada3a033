/* SPDX-License-Identifier: MIT */
/* step_form.h - planning the step past one instruction, by architecture. */
#ifndef CODE_STEP_STEP_FORM_H
#define CODE_STEP_STEP_FORM_H

#include "code/step/step.h"
#include <stddef.h>

/*
 * The step past the first instruction at bytes; kind stays STEP_NONE: a copy does it. Its length;
 * -EINVAL, -EOPNOTSUPP with *why. *out has no registers yet.
 */
int step_form(uint64_t address, const uint8_t *bytes, size_t len, struct step *out,
	      const char **why);

#endif
