/* SPDX-License-Identifier: MIT */
/* run_state.c - see run_state.h. */
#include "cli/launch/run_state.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "cli/launch/program.h"
#include "report/safe/clean.h"

#include <string.h>
#include <time.h>

#define STEP_NS 1000000

bool run_state_left(const struct run_words *run, uint32_t state, pid_t pid, uint64_t most_ns)
{
	const struct timespec step = { 0, STEP_NS };
	const uint64_t start = clock_now_ns();

	while (atomic_get(&run->state) == state) {
		if (program_has_ended(pid) || clock_now_ns() - start > most_ns)
			return atomic_get(&run->state) != state;
		nanosleep(&step, NULL);
	}
	return true;
}

void run_text_copy(const char *from, char *to, size_t n)
{
	memcpy(to, from, n);
	to[n - 1] = '\0';
	clean_text(to);
}

void run_state_why(const struct run_words *run, char why[RUN_WHY])
{
	run_text_copy(run->why, why, RUN_WHY);
}
