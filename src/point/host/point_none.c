/* SPDX-License-Identifier: MIT */
/* point_none.c - there is no window on this architecture: see point_window.h. */
#include "point/host/point_window.h"

#include <stddef.h>

int point_window_run(struct point_window **window, struct point_window_run *run)
{
	*window = NULL;
	run->made = 0;
	run->has_status = false;
	return 0;
}

int point_window_held(struct point_window *window, siginfo_t *out)
{
	return 0;
}

int point_window_before_step(struct point_window *window)
{
	return 0;
}

bool point_window_end(struct point_window *window, bool is_over)
{
	return false;
}
