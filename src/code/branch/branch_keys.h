/* SPDX-License-Identifier: MIT */
/*
 * branch_keys.h - the branches of each key, and of the objects that have them: see
 * <trapline/branch.h>.
 *
 * Objects come and go at any time. One lock covers keys and branches, and is taken before
 * poke_lock. Between fork's two handlers it is locked.
 */
#ifndef CODE_BRANCH_BRANCH_KEYS_H
#define CODE_BRANCH_BRANCH_KEYS_H

#include <trapline/branch.h>

#include "code/poke/poke.h"

/*
 * The records from start to end become known. *due is how many branches do not have the state of
 * their keys: branch_settle() is due. 0, -EDEADLK or -ENOMEM.
 */
int branch_add_object(const void *start, const void *end, size_t *due,
		      struct code_problem *problem);

/* The branches of an object get the state of their keys. 0, or errors as poke_commit(). */
int branch_settle(const void *start, const void *end, struct code_problem *problem);

void branch_forget_object(const void *start);

/* One wish more or fewer. 0, or -EINVAL, and errors as poke_commit(). */
int branch_enable(struct trapline_branch_key *key, struct code_problem *problem);
int branch_disable(struct trapline_branch_key *key, struct code_problem *problem);

/* Around fork(), outside of poke_before_fork() and so on. */
void branch_before_fork(void);
void branch_after_fork_in_parent(void);
void branch_after_fork_in_child(void);

#endif
