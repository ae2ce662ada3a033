/* SPDX-License-Identifier: MIT */
/* limit.c - the limit of descriptors: each event takes one in each thread. Safe in a handler. */
#include "event/limit.h"

#include <errno.h>
#include <sys/resource.h>

#include "base/atomic.h"
#include "base/sys.h"

#define LIMIT_MOST (1u << 20)
#define LIMIT_STEP 4u

static struct {
	uint32_t is_raised;
	struct rlimit before;
	struct rlimit raised;
} limit_raised;

static int set_descriptor_limit(const struct rlimit *before, const struct rlimit *raised)
{
	uint32_t expected = 0;

	/* Threads may do so at once: the first has seen what was before. */
	if (atomic_cas(&limit_raised.is_raised, &expected, 1u))
		limit_raised.before = *before;
	int err = (int)sys4(SYS_prlimit64, 0, RLIMIT_NOFILE, raised, NULL);
	if (!err)
		limit_raised.raised = *raised;
	return err;
}

/* The soft limit, and the hard one where that is allowed. Programs close all numbers below it. */
int event_limit_raise_once(void)
{
	struct rlimit limit;

	if (sys4(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &limit) || limit.rlim_cur >= LIMIT_MOST)
		return -EMFILE;
	rlim_t aim = limit.rlim_cur * LIMIT_STEP < LIMIT_MOST ? limit.rlim_cur * LIMIT_STEP :
								LIMIT_MOST;
	struct rlimit raised = { aim, limit.rlim_max > aim ? limit.rlim_max : aim };
	if (!set_descriptor_limit(&limit, &raised))
		return 0;
	raised = (struct rlimit){ limit.rlim_max, limit.rlim_max };
	return limit.rlim_cur < limit.rlim_max ? set_descriptor_limit(&limit, &raised) : -EMFILE;
}

int event_limit_raise(size_t descriptors)
{
	struct rlimit limit;

	for (;;) {
		int err = (int)sys4(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &limit);
		if (err || limit.rlim_cur > descriptors)
			return err;
		err = event_limit_raise_once();
		if (err)
			return -EMFILE;
	}
}

void event_limit_restore(void)
{
	struct rlimit now;

	if (!limit_raised.is_raised || sys4(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &now))
		return;
	limit_raised.is_raised = 0;
	if (now.rlim_cur == limit_raised.raised.rlim_cur &&
	    now.rlim_max == limit_raised.raised.rlim_max)
		sys4(SYS_prlimit64, 0, RLIMIT_NOFILE, &limit_raised.before, NULL);
}
