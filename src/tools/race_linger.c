/* SPDX-License-Identifier: MIT */
/*
 * race_linger.c - a sweep, and a program that ends while threads of it are still there.
 *
 * Many tests do not join theirs: main returns, and what the others were about to do is never done. In
 * every second process exit() waits a moment for them, before anything else that is done at the end.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/sys.h"
#include "tools/race_priv.h"

#define LINGER_NS 500000u /* doubled by chance, */
#define DOUBLINGS 6u	  /* so many times at most less one */
#define STEP_NS 100000
#define END_STEPS 10000u /* 1 s and more */

static uint32_t lingering; /* threads */

static void step(void)
{
	const struct timespec ts = { 0, STEP_NS };

	sys2(SYS_nanosleep, &ts, NULL);
}

static void linger_for(uint64_t ns)
{
	uint64_t start = clock_now_ns();

	if (race_is_stopped() || race_count_threads() < 2)
		return;
	counter_add(&race.process->counters[RACE_EXITS_DELAYED], 1);
	do
		step();
	while (!race_is_stopped() && clock_now_ns() - start < ns && race_count_threads() > 1);
}

static void linger(void)
{
	int error = errno;

	atomic_add(&lingering, 1u);
	if (race.region && race_random() % 2)
		linger_for((uint64_t)LINGER_NS << race_random() % DOUBLINGS);
	atomic_add(&lingering, -1u);
	errno = error;
}

int race_linger_begin(void)
{
	return atexit(linger) ? -ENOMEM : 0;
}

void race_linger_end(void)
{
	for (uint32_t n = 0; n < END_STEPS && atomic_get(&lingering); n++)
		step();
}
