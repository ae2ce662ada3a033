/* SPDX-License-Identifier: MIT */
/*
 * poke_any_mask.c - changes of code that threads may run with SIGTRAP blocked.
 *
 * All bytes change at once, by a store or by an exchange of pages. An int3 is the last resort,
 * since it ends the process when such a thread meets it. So none may be seen that has the signal
 * blocked.
 */
#include "code/poke/poke_any_mask.h"

#include <errno.h>
#include <stdio.h>

#include "base/atomic.h"
#include "code/lasting_text.h"
#include "code/poke/traps.h"

int (*poke_take_trap)(void);

static int take_trap(struct code_problem *problem)
{
	int (*const take)(void) = atomic_get(&poke_take_trap);
	const int err = take ? take() : 0;

	if (err)
		problem->why = "cannot handle SIGTRAP";
	return err;
}

int poke_may_trap(struct code_problem *problem)
{
	const char *why = problem->why ? problem->why : "the code cannot be changed at once";
	int err = traps_check_masks(problem);

	if (!err)
		return take_trap(problem);
	if (err != -EBUSY)
		return err;
	char *text = lasting_text();
	snprintf(text, LASTING_TEXT_BYTES,
		 "a thread has SIGTRAP blocked and would be killed by a trap; unblock it; %s", why);
	problem->why = text;
	return err;
}

int poke_any_mask(const struct trapline_poke_site *sites, size_t n, uint32_t flags,
		  struct code_problem *problem)
{
	int err = poke_commit(sites, n, flags | TRAPLINE_POKE_SINGLE_STORE, 0, problem);

	if (err != -EOPNOTSUPP)
		return err;
	err = poke_may_trap(problem);
	return err ? err : poke_commit(sites, n, flags & ~POKE_UNSYNCED, 0, problem);
}
