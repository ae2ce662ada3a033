/* SPDX-License-Identifier: MIT */
/* window_none.c - windows where the architecture has none. */
#include <errno.h>

#include <trapline/window.h>

int trapline_window(const struct trapline_window_opts *opts)
{
	return -EOPNOTSUPP;
}

int trapline_window_end(void)
{
	return -EOPNOTSUPP;
}

int trapline_window_stats(struct trapline_window_stats *out)
{
	return -EOPNOTSUPP;
}
