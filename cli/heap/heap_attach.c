/* SPDX-License-Identifier: MIT */
/*
 * heap_attach.c - see heap_attach.h.
 *
 * All that is shared with the process is data: numbers are copied once and looked at, text is cleaned.
 */
#include "cli/heap/heap_attach.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "cli/cmd.h"
#include "cli/inject/inject.h"
#include "cli/launch/program.h"
#include "cli/watchdog.h"
#include "report/plural.h"
#include "report/safe/clean.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define COMMAND "heap"
#define OBJECT "libtrapline-guard-late.so"
#define STEP_NS 1000000
#define READY_NS 10000000000u
#define END_NS 3000000000u

static bool wait_for_state(const struct heap_region *region, pid_t pid, uint32_t not_yet,
			   uint64_t most_ns)
{
	const struct timespec step = { 0, STEP_NS };
	uint64_t start = clock_now_ns();

	while (atomic_get(&region->state) == not_yet) {
		if ((kill(pid, 0) && errno == ESRCH) || clock_now_ns() - start > most_ns)
			return atomic_get(&region->state) != not_yet;
		nanosleep(&step, NULL);
	}
	return true;
}

static void copy_text(const char *from, char *to, size_t n)
{
	memcpy(to, from, n);
	to[n - 1] = '\0';
	clean_text(to);
}

/* A thread that has it blocked dies of an access that without us only reads a freed block. */
static size_t threads_with_segv_blocked(pid_t pid)
{
	static pid_t tids[INJECT_THREADS_MAX];
	size_t n = program_threads(pid, tids, INJECT_THREADS_MAX);
	size_t count = 0;
	char text[64];

	for (size_t i = 0; i < n; i++)
		if (program_status(pid, tids[i], "SigBlk", text, sizeof(text)))
			count += (strtoull(text, NULL, 16) >> (SIGSEGV - 1)) & 1;
	return count;
}

static bool is_trap_blocked(pid_t pid)
{
	static struct inject_masked threads[INJECT_THREADS_MAX];

	return inject_find_blocked(pid, threads, INJECT_THREADS_MAX) != 0;
}

static int heap_refused(const struct heap_region *region, pid_t pid, int err)
{
	char why[sizeof(region->why)];

	copy_text(region->why, why, sizeof(why));
	if (err == -EBUSY && !*why)
		return cli_wrong(
			COMMAND,
			"process %d is sampled by another trapline heap: end that one first", pid);
	return cli_wrong(COMMAND, "cannot sample process %d: %s", pid, *why ? why : strerror(-err));
}

int heap_attach(struct heap_attach *attach, const struct agent_region *memory,
		const struct heap_cli_settings *set)
{
	struct heap_region *region = (struct heap_region *)memory->head;
	const struct agent_share share = { .region = region,
					   .bytes = sizeof(*region),
					   .filled = SHARE_HEAD_BYTES,
					   .data_fd = memory->data_fd,
					   .lock_fd = &attach->lock_fd };
	size_t blocked = threads_with_segv_blocked(set->pid);
	int result = 0;

	if (blocked)
		return cli_wrong(
			COMMAND,
			"cannot sample process %d: %zu of its threads block%s SIGSEGV, and "
			"would be killed by an access to a freed block",
			set->pid, blocked, blocked == 1 ? "s" : "");
	region->settings.are_traps_blocked = is_trap_blocked(set->pid);
	agent_call_until(&asked_by, clock_now_ns(), set->for_ns);
	int status = agent_object_call(COMMAND, set->pid, OBJECT, "heap", &share, &result);
	if (status)
		return status;
	if (result)
		return heap_refused(region, set->pid, result);
	wait_for_state(region, set->pid, HEAP_NEW, READY_NS);
	if (atomic_get(&region->state) == HEAP_ARMED)
		return CLI_OK;
	int err = region->error;
	return heap_refused(region, set->pid, err < 0 ? err : -ETIMEDOUT);
}

void heap_attach_end(struct heap_attach *attach, const struct heap_region *region, pid_t pid)
{
	if (attach->lock_fd >= 0)
		close(attach->lock_fd);
	attach->lock_fd = -1;
	wait_for_state(region, pid, HEAP_ARMED, END_NS);
	attach->has_left = atomic_get(&region->state) == HEAP_ENDED;
	/* It has ended before: then nothing is left there either. */
	attach->has_left |= kill(pid, 0) && errno == ESRCH;
}

void heap_attach_summary(const struct heap_attach *attach, const struct heap_region *region,
			 FILE *f)
{
	char allocator[sizeof(region->allocator)];
	char names[sizeof(region->refused_names)];
	uint64_t live = counter_get(&region->live);
	uint64_t refused = counter_get(&region->refused_jumps);

	copy_text(region->refused_names, names, sizeof(names));
	copy_text(region->allocator, allocator, sizeof(allocator));
	if (*allocator)
		fprintf(f, "  malloc() is that of %s; blocks from before were not sampled\n",
			allocator);
	if (refused)
		fprintf(f, "  functions that could not be changed and were left out: %s\n", names);
	if (!attach->has_left)
		fputs("  the process did not answer: it stops the sampling when it continues\n", f);
	else if (live)
		fprintf(f,
			"  %" PRIu64 " sampled block%s %s in use: free() and its like stay changed "
			"until the last one is freed\n",
			live, plural(live), live == 1 ? "is" : "are");
	else
		fputs("  all functions of the process are as they were\n", f);
}
