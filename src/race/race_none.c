/* SPDX-License-Identifier: MIT */
/* race_none.c - where the race detector does not exist: see race_api.c. */
#include <errno.h>

#include <trapline/tools.h>

#include "core/explain.h"

TRAPLINE_API int trapline_race_start(struct trapline *t, const struct trapline_race_opts *opts,
				     struct trapline_race **out)
{
	return failed(-EOPNOTSUPP, FAILED_EVENT, "a search for races needs x86-64");
}

TRAPLINE_API int trapline_race_stats(struct trapline_race *race, struct trapline_race_stats *out)
{
	return -EINVAL;
}

TRAPLINE_API void trapline_race_stop(struct trapline_race *race)
{
}
