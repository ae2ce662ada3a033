/* SPDX-License-Identifier: MIT */
/*
 * inject_mask.c - SIGTRAP, or another signal, in the signal masks of a running process: see
 * inject.h.
 */
#include "cli/inject/inject.h"
#include "cli/inject/inject_handler.h"
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
#define LOOKS_AT_END 250 /* a thread may wait for a CPU all the while */
#define BIT(signal) (1ull << ((signal)-1))
#define OWN_MASKS 16
#define OF_LIBC (BIT(32) | BIT(33))
/* What a mask of all signals has beside, as in guest/signals.c. */
#define OF_ALL (BIT(SIGPWR) | BIT(SIGURG) | BIT(SIGWINCH))

static uint64_t masked_bit = TRAP_BIT;
static uint64_t marker_bit; /* blocked instead of it */

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

/*
 * 0, or -errno; -EALREADY: it has that. -EAGAIN: it has another mask by now, or, where that may
 * wait, a signal of Trapline is on its way, which the program would find if it were blocked. That
 * is seen only where the thread is still.
 */
static int change_mask(pid_t pid, pid_t tid, uint64_t from, uint64_t to, bool may_wait)
{
	static struct held_thread t;
	int err = mask_hold(&t, pid, tid);

	if (err)
		return err;
	if (t.saved_mask == to)
		err = -EALREADY;
	else if (t.saved_mask != from || (may_wait && t.had_trap && to & ~from & TRAP_BIT))
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
 * stays the same counts.
 */
static size_t drop_passing(pid_t pid, struct inject_masked *threads, size_t count)
{
	struct timespec pause = { 0, LOOK_NS };

	for (int look = 0; count && look < LOOKS; look++) {
		size_t kept = 0;

		nanosleep(&pause, NULL);
		for (size_t i = 0; i < count; i++) {
			uint64_t mask;

			if (read_mask(pid, threads[i].tid, "SigBlk", &mask) &&
			    mask == threads[i].mask)
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

/* ---- the program's own use of the marker ---- */

static bool has_all(uint64_t mask)
{
	return (mask & OF_ALL) == OF_ALL;
}

/* Masks that have the marker and not its signal before anything of that process is unblocked. */
static struct own_markers {
	uint64_t masks[OWN_MASKS];
	size_t count;	 /* more than there is room for: there are others */
	bool is_used;	 /* for more than to block all signals */
	bool has_opened; /* none is recorded any more */
} own_of_trap, own_of_other;

static struct own_markers *own_markers(void)
{
	return masked_bit == TRAP_BIT ? &own_of_trap : &own_of_other;
}

static bool is_own_marker(uint64_t mask)
{
	const struct own_markers *own = own_markers();

	for (size_t i = 0; i < own->count && i < OWN_MASKS; i++)
		if (own->masks[i] == mask)
			return true;
	return own->count > OWN_MASKS;
}

static void note_own_marker(uint64_t mask)
{
	struct own_markers *own = own_markers();

	/* No program has SIGSTKFLT blocked alone: a command has left it that was killed. */
	if (masked_bit == TRAP_BIT && !has_all(mask))
		return;
	own->is_used |= !has_all(mask);
	if (mask & masked_bit || is_own_marker(mask))
		return;
	if (own->count < OWN_MASKS)
		own->masks[own->count] = mask;
	own->count++;
}

void inject_note_markers(pid_t pid)
{
	static pid_t all[THREADS_MAX];
	const size_t n = own_markers()->has_opened ? 0 : program_threads(pid, all, THREADS_MAX);
	uint64_t mask;

	for (size_t i = 0; i < n; i++)
		if (read_mask(pid, all[i], "SigBlk", &mask) && mask & marker_bit &&
		    !program_has_our_thread(pid, all[i]))
			note_own_marker(mask);
}

/* ---- finding and unblocking ---- */

/*
 * It runs, so that it is stopped for the look. One that cannot be stopped is not unblocked either.
 */
static int look_while_held(pid_t pid, pid_t tid)
{
	static struct held_thread t;
	int err = mask_hold(&t, pid, tid);

	if (err)
		return err;
	const uint64_t stack = t.saved.rsp;

	held_end(&t);
	return handler_opens_at(pid, stack, masked_bit);
}

/* A handler that lasts, or that comes again and again. */
static void drop_in_handlers(void *arg)
{
	struct masking *m = arg;

	for (size_t i = 0; i < m->count; i++) {
		const pid_t tid = m->threads[i].tid;
		int opens = handler_opens(m->pid, tid, masked_bit);

		if (opens < 0)
			opens = look_while_held(m->pid, tid);
		if (opens <= 0)
			m->threads[m->count_done++] = m->threads[i];
	}
}

/*
 * With a marker, a thread that was unblocked in its handler is seen to have returned: it has no
 * marker then.
 */
size_t inject_find_blocked(pid_t pid, struct inject_masked *threads, size_t max)
{
	struct masking m = { pid, threads, 0, 0 };

	inject_note_markers(pid);
	m.count = drop_passing(pid, threads, find_blocked(pid, threads, max));
	if (marker_bit || !m.count)
		return m.count;
	held_run(drop_in_handlers, &m);
	return m.count_done;
}

/*
 * A thread inside read(2) and its like is not stopped there, and one inside sigtimedwait(2) has
 * another mask.
 */
static int open_soon(pid_t pid, const struct inject_masked *t)
{
	const struct timespec pause = { 0, LOOK_NS };
	int err = -EBUSY;

	for (int i = 0; i < LOOKS && (err == -EBUSY || err == -EAGAIN); i++) {
		if (i)
			nanosleep(&pause, NULL);
		err = change_mask(pid, t->tid, t->mask, open_mask(t->mask), false);
	}
	return err;
}

static void unblock_trap(void *arg)
{
	struct masking *m = arg;

	for (size_t i = 0; i < m->count; i++) {
		const struct inject_masked *t = &m->threads[i];

		if (!open_soon(m->pid, t))
			m->threads[m->count_done++] = *t;
	}
}

size_t inject_unblock_trap(pid_t pid, struct inject_masked *threads, size_t count)
{
	struct masking m = { pid, threads, count, 0 };

	held_run(unblock_trap, &m);
	own_markers()->has_opened |= m.count_done != 0;
	return m.count_done;
}

/* ---- blocking again ---- */

/*
 * One of Trapline that is on its way would wait there for the program. It is taken as soon as the
 * thread runs.
 */
static bool has_one_on_its_way(pid_t pid, pid_t tid)
{
	uint64_t pending;

	return read_mask(pid, tid, "SigPnd", &pending) && pending & masked_bit;
}

/*
 * libc blocks all for a moment, with the two signals that it lets no program block, and then has
 * what it had.
 */
static bool is_passing(uint64_t mask)
{
	return (mask & OF_LIBC) == OF_LIBC;
}

static const struct inject_masked *find_known(const struct masking *m, pid_t tid)
{
	for (size_t i = 0; i < m->count; i++)
		if (m->threads[i].tid == tid)
			return &m->threads[i];
	return NULL;
}

/*
 * The mask of a thread that was unblocked, and from which the one with this mask has it. It has the
 * signal too where that is released.
 */
static uint64_t mask_of_creator(const struct masking *m, uint64_t mask)
{
	for (size_t i = 0; i < m->count; i++)
		if ((mask | masked_bit) == (open_mask(m->threads[i].mask) | masked_bit))
			return m->threads[i].mask;
	return 0;
}

/*
 * A marker is in the mask of a thread that was created since, as its creator had it, and beside the
 * signal where the tool has released that. The mask without it, or 0: nothing of the mask is
 * Trapline's, as far as is known. A signal that is blocked in error kills, and one that is open in
 * error does not.
 */
static uint64_t without_marker(const struct masking *m, const struct inject_masked *known,
			       uint64_t mask)
{
	if (!(mask & marker_bit) || is_own_marker(mask) || (known && known->mask & marker_bit))
		return 0;
	uint64_t to = mask_of_creator(m, mask);
	if (!to && !has_all(mask) && !own_markers()->is_used)
		to = (mask & ~marker_bit) | masked_bit;
	return to == mask ? 0 : to;
}

/*
 * 1: it is to have *to. 0: it has the mask that the program believes, also if the program has
 * changed it. -EAGAIN: not yet, since it is in a handler, or in libc.
 */
static int mask_to_be(const struct masking *m, const struct inject_masked *known, uint64_t mask,
		      uint64_t *to)
{
	if (known && mask == known->mask)
		return 0;
	if (is_passing(mask))
		return -EAGAIN;
	*to = known && mask == open_mask(known->mask) ? known->mask :
							without_marker(m, known, mask);
	if (*to)
		return 1;
	return known && mask & masked_bit ? -EAGAIN : 0;
}

static bool is_blocked_again(const struct masking *m, pid_t tid, bool may_wait)
{
	const struct inject_masked *known = find_known(m, tid);
	uint64_t mask;
	uint64_t to;

	if ((!known && !marker_bit) || !read_mask(m->pid, tid, "SigBlk", &mask) ||
	    program_has_our_thread(m->pid, tid))
		return true;
	int wanted = mask_to_be(m, known, mask, &to);
	if (wanted <= 0)
		return !wanted;
	/* In sigtimedwait(2) it has another one than afterwards. */
	return !(may_wait && has_one_on_its_way(m->pid, tid)) &&
	       change_mask(m->pid, tid, mask, to, may_wait) == -EALREADY;
}

/*
 * A thread in a handler, such as the one that ended the search, restores its mask when it
 * returns.
 */
static void block_trap(void *arg)
{
	static pid_t all[THREADS_MAX];
	const struct masking *m = arg;
	struct timespec pause = { 0, LOOK_NS };
	int times = 0;

	for (int look = 0; (m->count || marker_bit) && times < 2 && look < LOOKS_AT_END; look++) {
		size_t n = program_threads(m->pid, all, THREADS_MAX);
		bool are_all = true;

		for (size_t i = 0; i < n; i++)
			are_all &= is_blocked_again(m, all[i], look < LOOKS_AT_END - LOOKS);
		times = are_all ? times + 1 : 0;
		nanosleep(&pause, NULL);
	}
}

void inject_block_trap(pid_t pid, struct inject_masked *threads, size_t count)
{
	struct masking m = { pid, threads, count, 0 };

	held_run(block_trap, &m);
}
