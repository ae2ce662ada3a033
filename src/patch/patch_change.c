/* SPDX-License-Identifier: MIT */
/*
 * patch_change.c - see patch_change.h.
 *
 * All words lead to gates, the phase becomes one of change, threads are waited for, the phase
 * becomes old or new by one store, and the words lead there directly.
 */
#include "patch/patch_change.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdio.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/sys.h"
#include "code/lasting_text.h"
#include "core/explain.h"
#include "patch/patch_site.h"
#include "patch/patch_threads.h"

#define TIMEOUT_NS 1000000000u
#define SYSTEM_CALL_BYTES 64

static uint32_t last_number;

static void lead_all(struct trapline_patch *patch, enum patch_way way)
{
	for (size_t i = 0; i < patch->count; i++)
		patch_site_lead(patch->sites[i], way);
}

static uint32_t kind_of_end(int to_new)
{
	return to_new ? TRAPLINE_PATCH_NEW : TRAPLINE_PATCH_OLD;
}

static void wake(struct trapline_patch *patch)
{
	sys4(SYS_futex, &patch->phase, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL);
}

/*
 * Until no thread is in a gate that was led elsewhere. 0; -EBUSY: one is, and has been for a while.
 */
static int patch_change_settle(const struct trapline_patch *patch)
{
	int err = 0;

	for (size_t i = 0; i < patch->count && !err; i++)
		err = patch_site_settle(patch->sites[i]);
	return err;
}

/* 1: it ended so; 0: it had ended otherwise already. */
static int end_change(struct trapline_patch *patch, uint32_t phase, int to_new)
{
	uint32_t expected = phase;

	atomic_set(&patch->ended_ns, clock_now_ns());
	int is_ours = atomic_cas(&patch->phase, &expected, (phase & ~3u) | kind_of_end(to_new));

	wake(patch);
	int is_new = PATCH_KIND(atomic_get(&patch->phase)) == TRAPLINE_PATCH_NEW;

	lead_all(patch, is_new ? PATCH_WAY_NEW : PATCH_WAY_OLD);
	patch_threads_end(patch, patch_change_settle(patch));
	return is_ours;
}

/* Threads stay inside of what they are in. */
static int change_at_once(struct trapline_patch *patch, int to_new)
{
	last_number += PATCH_NUMBER_STEP;
	atomic_set(&patch->phase, last_number | kind_of_end(to_new));
	lead_all(patch, to_new ? PATCH_WAY_NEW : PATCH_WAY_OLD);
	return 0;
}

/* Why the last change was not made. For messages. */
static const char *patch_change_why(const struct trapline_patch *patch, uint32_t phase)
{
	char *text = lasting_text();
	char how[SYSTEM_CALL_BYTES] = "running";
	const char *name = patch->pending_function < patch->count ?
				   patch->names[patch->pending_function] :
				   NULL;

	if (patch->pending_syscall >= 0)
		snprintf(how, sizeof(how), "asleep in system call %d", patch->pending_syscall);
	if (patch->pending_function == UINT32_MAX)
		snprintf(text, LASTING_TEXT_BYTES,
			 "thread %d is not known to be outside of the functions: it is %s",
			 (int)patch->pending_tid, how);
	else
		snprintf(text, LASTING_TEXT_BYTES, "thread %d is inside of %s: it is %s",
			 (int)patch->pending_tid, name ? name : "a function", how);
	return text;
}

static int begin_change(struct trapline_patch *patch, int to_new, uint32_t *phase)
{
	int err = patch->marks ? 0 : patch_threads_begin(patch);

	if (err)
		return err;
	*phase = (last_number += PATCH_NUMBER_STEP) |
		 (to_new ? TRAPLINE_PATCH_TO_NEW : TRAPLINE_PATCH_TO_OLD);
	int inside = patch_look_at_self(patch, *phase, NULL);

	if (inside != PATCH_OUTSIDE) {
		if (PATCH_KIND(patch->phase) < TRAPLINE_PATCH_TO_NEW)
			patch_threads_end(patch, 0);
		return failed(-EDEADLK, FAILED_CODE,
			      "the calling thread is inside of a function that is to be left");
	}
	lead_all(patch, PATCH_WAY_GATE);
	atomic_set(&patch->phase, *phase);
	wake(patch);
	return 0;
}

static int is_on_its_way(const struct trapline_patch *patch, int to_new)
{
	return PATCH_KIND(patch->phase) == (to_new ? TRAPLINE_PATCH_TO_NEW : TRAPLINE_PATCH_TO_OLD);
}

int patch_change(struct trapline_patch *patch, int to_new, uint64_t timeout_ns)
{
	uint32_t phase = patch->phase;
	int err;

	if (PATCH_KIND(phase) == kind_of_end(to_new))
		return 0;
	if (patch->consistency == TRAPLINE_PATCH_IMMEDIATE)
		return change_at_once(patch, to_new);
	atomic_set(&patch->deadline_ns, clock_now_ns() + (timeout_ns ? timeout_ns : TIMEOUT_NS));
	if (!is_on_its_way(patch, to_new)) {
		err = begin_change(patch, to_new, &phase);
		if (err)
			return err;
	}
	err = patch_threads_wait(patch, phase);
	if (!err && end_change(patch, phase, to_new))
		return 0;
	if (err == -ETIMEDOUT && patch->consistency == TRAPLINE_PATCH_PER_THREAD)
		return patch->pending ? (int)patch->pending : 1;
	failed(err ? err : -ETIMEDOUT, FAILED_CODE, patch_change_why(patch, phase));
	end_change(patch, phase, !to_new);
	return err ? err : -ETIMEDOUT;
}

void patch_change_forked(struct trapline_patch *patch)
{
	uint32_t phase = patch->phase;

	for (size_t i = 0; i < patch->count; i++)
		patch->sites[i]->users = 0;
	if (PATCH_KIND(phase) >= TRAPLINE_PATCH_TO_NEW &&
	    patch->consistency != TRAPLINE_PATCH_PER_THREAD)
		patch->phase = (phase & ~3u) |
			       kind_of_end(PATCH_KIND(phase) == TRAPLINE_PATCH_TO_OLD);
	patch->pid = sys_getpid();
}
