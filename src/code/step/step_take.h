/* SPDX-License-Identifier: MIT */
/* step_take.h - taking a thread past an instruction. */
#ifndef CODE_POKE_STEP_TAKE_H
#define CODE_POKE_STEP_TAKE_H

#include "code/step/step.h"
#include <ucontext.h>

/* In the handler: pc and registers as after the instruction. */
void step_take(const struct step *step, uint64_t address, ucontext_t *context);

#endif
