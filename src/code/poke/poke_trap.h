/* SPDX-License-Identifier: MIT */
/* poke_trap.h - what an int3 means. */
#ifndef CODE_POKE_POKE_TRAP_H
#define CODE_POKE_POKE_TRAP_H

#include "code/poke/poke.h"
#include <ucontext.h>

int poke_is_in_callback(void);
struct trapline_traps *poke_running_set(void);

/* 1: the signal with this context came inside a callback of a trap, in this thread. */
int poke_is_nested(const ucontext_t *context);

/* Called in the handler before and after a callback of a trap, if not NULL. */
extern void (*poke_before_callback)(const ucontext_t *context);
extern void (*poke_after_callback)(const ucontext_t *context);

/* The handler's part. 1: taken care of; 0: not Trapline's, or poke_was_put_back() states. */
int poke_on_int3(ucontext_t *context);
/*
 * 1: a trap that is gone, and a debugger has put the thread back to it. Any other SIGTRAP by the
 * kernel that meets the thread there looks the same: ask for those first, and for the program's own
 * after it.
 */
int poke_was_put_back(const ucontext_t *context);

#endif
