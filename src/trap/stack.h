/* SPDX-License-Identifier: MIT */
/* stack.h - a stack inside the handler. */
#ifndef TRAP_STACK_H
#define TRAP_STACK_H

#include <stdint.h>

/* Return addresses from a ucontext, innermost first. */
uint32_t stack_unwind(uint64_t ip, uint64_t *frames, uint32_t n);
void stack_warm_up(void);

#endif
