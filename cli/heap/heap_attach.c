/* SPDX-License-Identifier: MIT */
/*
 * heap_attach.c - see heap_attach.h.
 *
 * All that is shared with the process is data: numbers are copied once and inspected, text is
 * cleaned.
 */
#include "cli/heap/heap_attach.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/marker.h"
#include "cli/inject/inject.h"
#include "cli/launch/program.h"
#include "cli/launch/run_state.h"
#include "cli/launch/target_lock.h"
#include "cli/message.h"
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
#define READY_NS 10000000000u
#define END_NS 3000000000u
#define LEAVE_NS 9000000000u /* it waits for threads of a busy machine */

static void block_signals(struct heap_attach *attach, pid_t pid)
{
	inject_mask_of(SIGSEGV, MARKER_OF_SIGSEGV);
	if (attach->unblocked_count)
		inject_block_trap(pid, attach->unblocked, attach->unblocked_count);
	/* What the program has blocked since. */
	inject_mask_of(SIGTRAP, MARKER_OF_SIGTRAP);
	inject_block_trap(pid, NULL, 0);
	inject_mask_of(SIGTRAP, 0);
	attach->unblocked_count = 0;
	free(attach->unblocked);
	attach->unblocked = NULL;
}

/*
 * A thread that has it blocked dies of an access that without us only reads a freed block. It does
 * not notice that it has not: what the program asks for from now on comes through the detector.
 */
static int unblock_segv(struct heap_attach *attach, pid_t pid)
{
	attach->unblocked = calloc(INJECT_THREADS_MAX, sizeof(*attach->unblocked));
	if (!attach->unblocked)
		return cli_wrong(COMMAND, "out of memory");
	inject_mask_of(SIGSEGV, MARKER_OF_SIGSEGV);
	size_t found = inject_find_blocked(pid, attach->unblocked, INJECT_THREADS_MAX);
	attach->unblocked_count = inject_unblock_trap(pid, attach->unblocked, found);
	inject_mask_of(SIGTRAP, 0);
	if (attach->unblocked_count == found)
		return CLI_OK;
	return cli_wrong(COMMAND,
			 "cannot sample process %d: a thread blocks SIGSEGV, and cannot be stopped "
			 "to unblock it (it may be traced)",
			 pid);
}

static bool is_trap_blocked(pid_t pid)
{
	static struct inject_masked threads[INJECT_THREADS_MAX];

	inject_mask_of(SIGTRAP, MARKER_OF_SIGTRAP);
	inject_note_markers(pid);
	inject_mask_of(SIGTRAP, 0);
	return inject_find_blocked(pid, threads, INJECT_THREADS_MAX) != 0;
}

static int heap_refused(const struct heap_region *region, pid_t pid, int err)
{
	char why[RUN_WHY];

	run_state_why(&region->run, why);
	if (err == -EBUSY && !*why)
		return cli_wrong(
			COMMAND,
			"process %d is sampled by another trapline heap: end that one first", pid);
	return cli_wrong(COMMAND, "cannot sample process %d: %s", pid, *why ? why : strerror(-err));
}

/* Between the two the process has taken SIGSEGV, and samples nothing. */
static int arm(struct heap_attach *attach, struct heap_region *region, pid_t pid)
{
	run_state_left(&region->run, RUN_NEW, pid, READY_NS);
	if (atomic_get(&region->run.state) != RUN_TAKEN)
		return CLI_OK;
	/* Before: from now on SIGSEGV stays with the process until their masks are back. */
	atomic_set(&region->unblocked, 1u);
	int status = unblock_segv(attach, pid);
	if (status)
		return status;
	atomic_set(&region->may_sample, (uint32_t)HEAP_MAY_SAMPLE);
	run_state_left(&region->run, RUN_TAKEN, pid, READY_NS);
	return CLI_OK;
}

static int load(struct heap_attach *attach, const struct agent_region *memory,
		const struct heap_cli_settings *set)
{
	struct heap_region *region = (struct heap_region *)memory->head;
	const struct agent_share share = { .region = region,
					   .bytes = sizeof(*region),
					   .filled = SHARE_HEAD_BYTES,
					   .data_fd = memory->data_fd,
					   .lock_fd = &attach->lock_fd,
					   .room = set->growth ? "growth" : NULL,
					   .has_own_files = true };
	int result = 0;
	int status = agent_object_call(COMMAND, set->pid, OBJECT, "heap", &share, &result);

	if (status)
		return status;
	if (result)
		return heap_refused(region, set->pid, result);
	status = arm(attach, region, set->pid);
	if (status)
		return status;
	if (atomic_get(&region->run.state) == RUN_ARMED)
		return CLI_OK;
	int err = region->run.error;
	return heap_refused(region, set->pid, err < 0 ? err : -ETIMEDOUT);
}

int heap_attach(struct heap_attach *attach, const struct agent_region *memory,
		const struct heap_cli_settings *set)
{
	struct heap_region *region = (struct heap_region *)memory->head;
	int status = target_lock(COMMAND, set->pid);

	if (status)
		return status;
	region->settings.are_traps_blocked = is_trap_blocked(set->pid);
	agent_call_until(&asked_by, clock_now_ns(), set->for_ns);
	status = load(attach, memory, set);
	if (status)
		heap_attach_end(attach, region, set->pid);
	return status;
}

void heap_attach_end(struct heap_attach *attach, struct heap_region *region, pid_t pid)
{
	if (attach->lock_fd >= 0)
		close(attach->lock_fd);
	attach->lock_fd = -1;
	if (atomic_get(&region->run.state) == RUN_TAKEN)
		atomic_set(&region->may_sample, (uint32_t)HEAP_MAY_NOT);
	run_state_left(&region->run, RUN_TAKEN, pid, END_NS);
	run_state_left(&region->run, RUN_ARMED, pid, END_NS);
	block_signals(attach, pid);
	atomic_set(&region->are_masks_back, 1u);
	run_state_left(&region->run, RUN_STOPPED, pid, LEAVE_NS);
	attach->has_left = atomic_get(&region->run.state) == RUN_ENDED;
	/* It has ended before: then nothing is left there either. */
	attach->has_left |= program_has_ended(pid);
}

void heap_attach_summary(const struct heap_attach *attach, const struct heap_region *region,
			 FILE *f)
{
	char allocator[sizeof(region->allocator)];
	char names[sizeof(region->refused_names)];
	uint64_t live = counter_get(&region->live);
	uint64_t processes = counter_get(&region->counters[HEAP_PROCESSES]);
	uint64_t refused = counter_get(&region->refused_jumps);

	run_text_copy(region->refused_names, names, sizeof(names));
	run_text_copy(region->allocator, allocator, sizeof(allocator));
	if (processes > 1)
		fprintf(f,
			"  %" PRIu64
			" forked child%s sampled; in what still runs of them, free() and its "
			"like stay changed\n",
			processes - 1, processes == 2 ? " was" : "ren were");
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
			"until the last one is freed, and no other command can search it until "
			"then\n",
			live, plural(live), live == 1 ? "is" : "are");
	else
		fputs("  all functions of the process are as they were\n", f);
}
