/* SPDX-License-Identifier: MIT */
/* inject_opened.c - see inject_opened.h. */
#include "cli/inject/inject_opened.h"

#include "base/clock.h"
#include "base/marker.h"
#include "cli/launch/program.h"
#include "cli/launch/target_lock.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

#define LEAVES_NS 6000000000ull
#define STEP_NS 5000000

void inject_opened_find(struct inject_opened *o, pid_t pid)
{
	inject_mask_of(SIGTRAP, MARKER_OF_SIGTRAP);
	o->threads = calloc(INJECT_THREADS_MAX, sizeof(*o->threads));
	if (o->threads)
		o->count = inject_find_blocked(pid, o->threads, INJECT_THREADS_MAX);
}

void inject_opened_begin(struct inject_opened *o, pid_t pid)
{
	o->count = inject_unblock_trap(pid, o->threads, o->count);
}

/* What the program blocks gets a marker until the agent's thread has noticed the end. */
void inject_opened_end(struct inject_opened *o, pid_t pid)
{
	const struct timespec step = { 0, STEP_NS };
	const uint64_t end = clock_now_ns() + LEAVES_NS;
	bool works = true;

	while (works && !program_has_ended(pid) && clock_now_ns() < end) {
		works = target_has_our_thread(pid);
		inject_block_trap(pid, o->threads, o->count);
		if (works)
			nanosleep(&step, NULL);
	}
}

void inject_opened_free(struct inject_opened *o)
{
	free(o->threads);
	*o = (struct inject_opened){ NULL, 0 };
}
