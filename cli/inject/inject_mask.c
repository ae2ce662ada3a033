/* SPDX-License-Identifier: MIT */
/* inject_mask.c - SIGTRAP, or another signal, in the signal masks of a running process: see inject.h. */
#include "cli/inject/inject.h"
#include "cli/inject/inject_thread.h"
#include "cli/launch/program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX INJECT_THREADS_MAX
#define LOOKS 10
#define LOOK_NS 2000000

static uint64_t masked_bit = TRAP_BIT;
static uint64_t marker_bit; /* blocked in its place */

void inject_mask_of(int signal, int marker)
{
	masked_bit = 1ull << (signal - 1);
	marker_bit = marker ? 1ull << (marker - 1) : 0;
}

/* As the thread has it while the signal is open. */
static uint64_t open_mask(uint64_t mask)
{
	return (mask & ~masked_bit) | marker_bit;
}

static bool read_mask(pid_t pid, pid_t tid, const char *name, uint64_t *mask)
{
	char text[32];

	if (!program_status(pid, tid, name, text, sizeof(text)))
		return false;
	*mask = strtoull(text, NULL, 16);
	return true;
}

/* Another command that stops the thread leaves it soon. */
static int mask_hold(struct held_thread *t, pid_t pid, pid_t tid)
{
	char path[32];
	int err = held_begin(t, pid, tid, -1);

	if (err != -EPERM)
		return err;
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	int memory_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (held_wait_for_others(memory_fd))
		err = held_begin(t, pid, tid, -1);
	if (memory_fd >= 0)
		close(memory_fd);
	return err;
}

/* 0, or -errno; -EAGAIN: it has another mask by now. */
static int change_mask(pid_t pid, pid_t tid, uint64_t from, uint64_t to)
{
	static struct held_thread t;
	int err = mask_hold(&t, pid, tid);

	if (err)
		return err;
	if (t.saved_mask != from)
		err = -EAGAIN;
	else
		t.saved_mask = to;
	held_end(&t);
	return err;
}

/* Finds the threads that have SIGTRAP blocked at this moment, with their masks. */
static size_t find_blocked(pid_t pid, struct inject_masked *threads, size_t max)
{
	static pid_t all[THREADS_MAX];
	size_t n = program_threads(pid, all, THREADS_MAX);
	size_t count = 0;

	for (size_t i = 0; i < n && count < max; i++) {
		uint64_t mask;

		if (read_mask(pid, all[i], "SigBlk", &mask) && mask & masked_bit &&
		    !program_has_our_thread(pid, all[i]))
			threads[count++] = (struct inject_masked){ all[i], mask };
	}
	return count;
}

/*
 * A thread in a handler has signals blocked for a moment: its return would undo a change
 * of its mask, and SIGTRAP blocked later kills it at the next int3. So only a mask that
 * stays the same counts. A thread that has only SIGTRAP blocked, with a handler, is most
 * likely in that handler.
 */
static size_t drop_passing(pid_t pid, struct inject_masked *threads, size_t count)
{
	struct timespec pause = { 0, LOOK_NS };
	uint64_t caught = 0;

	read_mask(pid, pid, "SigCgt", &caught);
	for (int look = 0; count && look < LOOKS; look++) {
		size_t kept = 0;

		nanosleep(&pause, NULL);
		for (size_t i = 0; i < count; i++) {
			uint64_t mask;

			if (read_mask(pid, threads[i].tid, "SigBlk", &mask) &&
			    mask == threads[i].mask && !(caught & masked_bit && mask == masked_bit))
				threads[kept++] = threads[i];
		}
		count = kept;
	}
	return count;
}

struct masking {
	pid_t pid;
	struct inject_masked *threads;
	size_t count;
	size_t count_done;
};

size_t inject_find_blocked(pid_t pid, struct inject_masked *threads, size_t max)
{
	return drop_passing(pid, threads, find_blocked(pid, threads, max));
}

static void unblock_trap(void *arg)
{
	struct masking *m = arg;

	for (size_t i = 0; i < m->count; i++) {
		const struct inject_masked *t = &m->threads[i];

		if (!change_mask(m->pid, t->tid, t->mask, open_mask(t->mask)))
			m->threads[m->count_done++] = *t;
	}
}

size_t inject_unblock_trap(pid_t pid, struct inject_masked *threads, size_t count)
{
	struct masking m = { pid, threads, count, 0 };

	held_run(unblock_trap, &m);
	return m.count_done;
}

/* One of ours that is on its way would wait there for the program. It is taken as soon as the thread runs. */
static bool has_one_on_its_way(pid_t pid, pid_t tid)
{
	uint64_t pending;

	return read_mask(pid, tid, "SigPnd", &pending) && pending & masked_bit;
}

/* True also if the program has changed the mask itself. */
static bool is_blocked_again(pid_t pid, const struct inject_masked *thread, bool may_wait)
{
	uint64_t mask;

	if (!read_mask(pid, thread->tid, "SigBlk", &mask) || mask == thread->mask)
		return true;
	if (mask != open_mask(thread->mask))
		return !(mask & masked_bit);
	if (may_wait && has_one_on_its_way(pid, thread->tid))
		return false;
	change_mask(pid, thread->tid, mask, thread->mask);
	return false;
}

/*
 * A thread in a handler, such as the one that ended the search, restores its mask when it
 * returns.
 */
static void block_trap(void *arg)
{
	const struct masking *m = arg;
	struct timespec pause = { 0, LOOK_NS };
	int times = 0;

	for (int look = 0; m->count && times < 2 && look < 5 * LOOKS; look++) {
		bool are_all = true;

		for (size_t i = 0; i < m->count; i++)
			are_all &= is_blocked_again(m->pid, &m->threads[i], look < 4 * LOOKS);
		times = are_all ? times + 1 : 0;
		nanosleep(&pause, NULL);
	}
}

void inject_block_trap(pid_t pid, struct inject_masked *threads, size_t count)
{
	struct masking m = { pid, threads, count, 0 };

	held_run(block_trap, &m);
}
