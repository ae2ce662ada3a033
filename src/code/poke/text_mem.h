/* SPDX-License-Identifier: MIT */
/*
 * text_mem.h - the descriptor by which the kernel writes text: one for all that change it.
 *
 * It is closed behind each change, unless a holder expects more: a safepoint domain, an object with
 * branches, or an attach that changes many functions. All of it needs poke_lock, except
 * `text_mem_hold()` and `text_mem_drop()`.
 */
#ifndef CODE_POKE_TEXT_MEM_H
#define CODE_POKE_TEXT_MEM_H

#include "code/mem.h"

/* For the calling thread until text_mem_put(). */
struct mem *text_mem_get(void);
void text_mem_put(void);

void text_mem_hold(void);
void text_mem_drop(void);
int text_mem_is_held(void);

/* In a forked child: the descriptor is that of the parent's memory. */
void text_mem_after_fork_in_child(void);

#endif
