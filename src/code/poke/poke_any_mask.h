/* SPDX-License-Identifier: MIT */
/*
 * poke_any_mask.h - changes of code that threads may run with SIGTRAP blocked: see poke_any_mask.c.
 */
#ifndef CODE_POKE_POKE_ANY_MASK_H
#define CODE_POKE_POKE_ANY_MASK_H

#include "code/poke/poke.h"

/* As poke_commit(). -EBUSY also: only an int3 could do it, and a thread has SIGTRAP blocked. */
int poke_any_mask(const struct trapline_poke_site *sites, size_t n, uint32_t flags,
		  struct code_problem *problem);

/*
 * A change without int3 was refused; the problem states why. 0: an int3 harms no thread. -EBUSY or
 * -EACCES: it does, or that is not known. It sleeps while a thread has SIGTRAP blocked, so call it
 * without the lock.
 */
int poke_may_trap(struct code_problem *problem);

/* Makes SIGTRAP Trapline's, before an int3 is anywhere; NULL: it is already. 0 or -errno. */
extern int (*poke_take_trap)(void);

#endif
