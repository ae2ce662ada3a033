/* SPDX-License-Identifier: MIT */
/*
 * guard_user.c - a process that changes its user: programs that it executes from then on cannot
 * open the memory of the run, which is of the command's user. They run without being sampled, and
 * the summary reports it.
 */
#include <unistd.h>

#include "agent/guard/guard.h"
#include "agent/guard/guard_next.h"
#include "base/atomic.h"
#include "base/sys.h"

static int noted(int result)
{
	static bool is_noted;

	if (result || is_noted || !heap_range.bytes ||
	    (uint64_t)sys0(SYS_geteuid) == heap_region->settings.user)
		return result;
	is_noted = true;
	counter_add(&heap_region->counters[HEAP_OTHER_USER], 1u);
	return result;
}

GUARD(int, setuid, (uid_t user))
{
	NEXT(setuid);
	return noted(next_setuid(user));
}

GUARD(int, seteuid, (uid_t user))
{
	NEXT(seteuid);
	return noted(next_seteuid(user));
}

GUARD(int, setreuid, (uid_t real, uid_t user))
{
	NEXT(setreuid);
	return noted(next_setreuid(real, user));
}

GUARD(int, setresuid, (uid_t real, uid_t user, uid_t saved))
{
	NEXT(setresuid);
	return noted(next_setresuid(real, user, saved));
}
