/* SPDX-License-Identifier: MIT */
/* restartable.h - which text belongs to restartable sequences (rseq(2)): see restartable.c. */
#ifndef CODE_POKE_RESTARTABLE_H
#define CODE_POKE_RESTARTABLE_H

#include <stdint.h>

struct restartable;

/*
 * Searches all objects, if some were loaded or closed since the last search; NULL if not, or
 * without memory. Takes the loader's lock, so not under poke_lock: a program may poke from a
 * callback of dl_iterate_phdr().
 */
struct restartable *restartable_look(void);

/* Around fork(): no child may be made during a look. */
void restartable_before_fork(void);
void restartable_after_fork_in_parent(void);
void restartable_after_fork_in_child(void);

/* From now on this look counts. Under poke_lock. Owns look, which may be NULL. */
void restartable_take(struct restartable *look);

/* Release a look that is not taken. */
void restartable_drop(struct restartable *look);

extern const char restartable_why[];

/* 1: some of these bytes of text are part of a sequence. Under poke_lock. */
int restartable_has(uint64_t address, uint64_t bytes);

#endif
