/* SPDX-License-Identifier: MIT */
/* wall_time.h - the time of day, which clients and later runs understand. */
#ifndef CLI_SERVICE_WALL_TIME_H
#define CLI_SERVICE_WALL_TIME_H

#include <time.h>

/* Seconds of the epoch. */
static inline double wall_time(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

#endif
