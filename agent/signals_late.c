/* SPDX-License-Identifier: MIT */
/* signals_late.c - SIGTRAP in a process that ran before: trapline unblocked it, and the program does not know. */
#include <signal.h>
#include <string.h>

#include "base/sys.h"
#include "guest/signals.h"
#include "race/race.h"

/* After its end trapline blocks them again, which takes a moment. */
#define BLOCKED_AGAIN_NS 1000000000u

static struct race_masked masked[RACE_MASKED];
static uint32_t masked_count;

/*
 * As long as the thread has not changed its mask itself. One that was born since has the mask of the thread
 * that created it. Where SIGTRAP alone was blocked, that mask is empty, as it is in any other thread.
 */
static int is_unblocked_by_us(const ucontext_t *context)
{
	const uint64_t trap = 1ull << (SIGTRAP - 1);
	int is_inherited = 0;
	uint64_t mask;

	memcpy(&mask, &context->uc_sigmask, sizeof(mask));
	mask |= trap;
	pid_t tid = sys_gettid();

	if (!signals_have_let_go() && race_has_ended_for(BLOCKED_AGAIN_NS))
		return 0;
	for (uint32_t i = 0; i < masked_count; i++) {
		if (masked[i].tid == tid)
			return masked[i].mask == mask;
		is_inherited |= masked[i].mask == mask && mask != trap;
	}
	return is_inherited;
}

void signals_will_be_unblocked(const struct race_masked *threads, uint32_t count, int (*end)(void))
{
	masked_count = count < RACE_MASKED ? count : RACE_MASKED;
	memcpy(masked, threads, masked_count * sizeof(*threads));
	signals_take_late(end, is_unblocked_by_us);
}
