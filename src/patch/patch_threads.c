/* SPDX-License-Identifier: MIT */
/*
 * patch_threads.c - see patch_threads.h.
 *
 * A thread that enters a gate reports itself. The stack of one that sleeps in a system call is
 * read, and counts if the thread has not run in the meantime. One that runs is asked by SIGTRAP of
 * a software clock that counts in user mode only, so no system call is interrupted.
 */
#include "patch/patch_threads.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/maps.h"
#include "base/memory.h"
#include "base/own_fd.h"
#include "base/sys.h"
#include "base/tasks.h"
#include "base/trap_path.h"
#include "code/poke/slot_origin.h"
#include "code/unwind/unwind_code.h"
#include "core/create.h"
#include "patch/patch_code.h"
#include "trap/room.h"

#define MARKS_MIN 1024u
#define TEXT_BYTES 256
#define TICK_NS 100000u
/* Gates and sleepers first: clocks cost a descriptor for each thread. */
#define ROUNDS_WITHOUT_CLOCK 4
#define PATIENCE_MIN_NS 50000u
#define PATIENCE_MAX_NS 1000000u
#define LOOK_BYTES 4096u /* of the unwinder, and of a scan of the stack */
/* In proc(5) a folder of threads has a link for each, and its own two. */
#define OWN_LINKS 2

/* Where a thread sleeps. */
struct asleep {
	long number; /* of the system call */
	uint64_t sp;
	uint64_t pc;
	char text[TEXT_BYTES];
	char ran[TEXT_BYTES];
};

/* One wait. */
struct threads_wait {
	struct trapline_patch *patch;
	uint32_t phase;
	pid_t self;
	struct task_list tasks;
	struct patch_maps *maps;
	int are_maps_read; /* in this round: only a stack that is read needs them */
	int has_clock;	   /* or it was refused */
	struct trapline_event *clock;
};

static int read_of_thread(pid_t tid, const char *name, char *out)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d/%s", (int)tid, name);
	int fd = own_fd_open(path, O_RDONLY);
	if (fd < 0)
		return fd;
	ssize_t n = sys_read(fd, out, TEXT_BYTES - 1);
	sys_close(fd);
	if (n < 0)
		return (int)n;
	out[n] = 0;
	return 0;
}

/* 1: it sleeps in a system call. 0: it does not, or that is not known. -ESRCH: it has ended. */
static int read_asleep(pid_t tid, struct asleep *out)
{
	int err = read_of_thread(tid, "schedstat", out->ran);

	if (!err)
		err = read_of_thread(tid, "syscall", out->text);
	if (err == -ENOENT || err == -ESRCH)
		return -ESRCH;
	if (err || sscanf(out->text, "%ld", &out->number) != 1 || out->number < 0)
		return 0;
	return sscanf(out->text, "%*d %*x %*x %*x %*x %*x %*x %lx %lx", &out->sp, &out->pc) == 2;
}

static int read_maps(struct patch_maps *to)
{
	struct maps maps;

	to->count = 0;
	maps_open(&maps, 0, NULL, 0);
	for (const struct maps_row *row; (row = maps_next(&maps));)
		if (row->mode[1] == 'w' && to->count < PATCH_MAPS_MAX)
			to->rows[to->count++] = (struct patch_map){ row->start, row->end };
	return maps_close(&maps);
}

/* The thread sleeps. Its own code may make the system call, and a register may be needed. */
static int look_at_stack(const struct threads_wait *wait, const struct asleep *asleep)
{
	const uint64_t origin = slot_origin(asleep->pc);
	const uint64_t pc = origin ? origin : asleep->pc;
	int inside = patch_function_at(wait->patch, wait->phase, pc);

	if (inside != PATCH_OUTSIDE)
		return inside;
	if (patch_is_on_the_way(wait->patch, pc))
		return PATCH_UNSURE;
	inside = patch_scan(wait->patch, wait->phase, asleep->sp, wait->maps);
	if (PATCH_RETURNS_BY_REGISTER && inside == PATCH_OUTSIDE && !unwind_return_is_on_stack(pc))
		return PATCH_UNSURE;
	return inside;
}

/* PATCH_OUTSIDE, PATCH_UNSURE, the function, or -ESRCH. */
static int look_asleep(struct threads_wait *wait, pid_t tid, struct asleep *before)
{
	struct asleep after;

	if (!wait->are_maps_read && read_maps(wait->maps))
		return PATCH_UNSURE;
	wait->are_maps_read = 1;
	int asleep = read_asleep(tid, before);
	if (asleep <= 0)
		return asleep ? -ESRCH : PATCH_UNSURE;
	int inside = look_at_stack(wait, before);
	if (read_asleep(tid, &after) != 1 || strcmp(before->text, after.text) ||
	    strcmp(before->ran, after.ran))
		return PATCH_UNSURE;
	return inside;
}

static void note_pending(struct trapline_patch *patch, pid_t tid, int inside, long number,
			 const struct patch_mark *mark)
{
	if (inside < 0 && mark && atomic_get(&mark->inside))
		inside = (int)atomic_get(&mark->inside) - 1;
	/* One that is known to be inside states more than one that is not known to be outside. */
	if (patch->pending++ && inside < 0)
		return;
	patch->pending_tid = tid;
	patch->pending_function = inside < 0 ? UINT32_MAX : (uint32_t)inside;
	patch->pending_syscall = (int32_t)number;
}

static void look_at(struct threads_wait *wait, pid_t tid)
{
	struct patch_mark *mark = patch_mark_of(wait->patch, tid);
	struct asleep asleep = { .number = -1 };

	if (tid == wait->self || (mark && atomic_get(&mark->outside_in) == wait->phase))
		return;
	int inside = look_asleep(wait, tid, &asleep);
	if (inside == -ESRCH)
		return;
	if (inside == PATCH_OUTSIDE && mark)
		atomic_set(&mark->outside_in, wait->phase);
	else if (!mark || atomic_get(&mark->outside_in) != wait->phase)
		note_pending(wait->patch, tid, inside, asleep.number, mark);
}

static int look_at_all(struct threads_wait *wait)
{
	int err = tasks_read(wait->patch->pid, &wait->tasks);

	wait->are_maps_read = 0;
	wait->patch->pending = 0;
	for (size_t i = 0; i < wait->tasks.count && !err; i++)
		look_at(wait, wait->tasks.tids[i]);
	return err;
}

/*
 * In each thread that runs. A look needs more stack than a handler of the program may have left on
 * its alternate stack. A later sample inspects such a thread.
 */
static enum trapline_action on_patch_tick(const struct trapline_hit *hit)
{
	trap_note_stack(hit->context);
	if (trap_has_room(LOOK_BYTES))
		patch_tick(hit->arg, hit->tid, hit->context);
	return TRAPLINE_GO_ON;
}

/* Without it, threads that neither sleep nor enter a gate are not known. */
static void start_clock(struct threads_wait *wait)
{
	const struct wish ticks = { .access = TRAPLINE_AMOUNT,
				    .counter = TRAPLINE_TASK_CLOCK,
				    .period = TICK_NS };
	TRAPLINE_OPTS(event, opts);

	wait->has_clock = 1;
	opts.callback = on_patch_tick;
	opts.arg = wait->patch;
	if (event_create(wait->patch->target, &ticks, &opts, &wait->clock))
		wait->clock = NULL;
}

static uint64_t patience(int round)
{
	uint64_t ns = PATIENCE_MIN_NS;

	for (int i = 0; i < round && ns < PATIENCE_MAX_NS; i++)
		ns += ns / 2;
	return ns;
}

/* Counts the threads that are listed. */
static uint32_t count_unmarked(const struct threads_wait *wait)
{
	uint32_t unmarked = 0;

	for (size_t i = 0; i < wait->tasks.count; i++) {
		const struct patch_mark *mark = patch_mark_of(wait->patch, wait->tasks.tids[i]);

		if (wait->tasks.tids[i] != wait->self)
			unmarked += !mark || atomic_get(&mark->outside_in) != wait->phase;
	}
	return unmarked;
}

/* 1: the process has these threads and no others. That is sooner known than the list is read. */
static int is_list_whole(const struct threads_wait *wait)
{
	struct stat folder;

	if (sys4(SYS_newfstatat, AT_FDCWD, "/proc/self/task", &folder, 0) ||
	    folder.st_nlink != wait->tasks.count + OWN_LINKS)
		return 0;
	for (size_t i = 0; i < wait->tasks.count; i++)
		if (sys_tgkill(wait->patch->pid, wait->tasks.tids[i], 0))
			return 0;
	return 1;
}

/*
 * Waits until all that are listed have reported themselves, while one does now and then, and until
 * the deadline. 1: all threads have.
 */
static int wait_for_arrivals(const struct threads_wait *wait, uint64_t ns)
{
	const struct timespec step = { 0, (long)ns };
	struct trapline_patch *patch = wait->patch;
	int has_come = 1;

	while (has_come && atomic_get(&patch->phase) == wait->phase &&
	       clock_now_ns() < patch->deadline_ns) {
		uint32_t arrived = atomic_get(&patch->arrivals);

		atomic_set(&patch->arrivals_due, arrived + count_unmarked(wait));
		/*
		 * It is counted again behind that store: a thread that came in the meantime wakes
		 * none.
		 */
		if (!count_unmarked(wait))
			return is_list_whole(wait);
		sys4(SYS_futex, &patch->arrivals, FUTEX_WAIT_PRIVATE, arrived, &step);
		has_come = atomic_get(&patch->arrivals) != arrived;
	}
	return 0;
}

/*
 * Twice in a row: the kernel's list may leave out a thread while another one ends. The first list
 * is that from before the gates was.
 */
static int wait_for_all(struct threads_wait *wait)
{
	int in_a_row = 0;

	for (int round = 0;; round++) {
		if (!in_a_row && wait->tasks.count && wait_for_arrivals(wait, patience(round))) {
			wait->patch->pending = 0;
			return 0;
		}
		int err = look_at_all(wait);
		if (err)
			return err;
		in_a_row = wait->patch->pending ? 0 : in_a_row + 1;
		if (in_a_row == 2)
			return 0;
		if (atomic_get(&wait->patch->phase) != wait->phase ||
		    (wait->patch->pending && clock_now_ns() > wait->patch->deadline_ns))
			return -ETIMEDOUT;
		if (round >= ROUNDS_WITHOUT_CLOCK && wait->patch->pending && !wait->has_clock)
			start_clock(wait);
	}
}

int patch_threads_wait(struct trapline_patch *patch, uint32_t phase)
{
	struct threads_wait wait = { .patch = patch, .phase = phase, .self = sys_gettid() };

	wait.maps = memory_map(sizeof(*wait.maps));
	if (memory_failed(wait.maps))
		return -ENOMEM;
	wait.tasks = patch->known;
	patch->known = (struct task_list){ 0 };
	int err = wait_for_all(&wait);
	if (wait.clock)
		event_close(wait.clock);
	tasks_free(&wait.tasks);
	memory_unmap(wait.maps, sizeof(*wait.maps));
	return err;
}

static size_t marks_bytes(const struct trapline_patch *patch)
{
	return (patch->mark_mask + 1) * sizeof(*patch->marks);
}

int patch_threads_begin(struct trapline_patch *patch)
{
	uint32_t rows = MARKS_MIN;
	int err = tasks_read(patch->pid, &patch->known);

	while (rows < 4 * patch->known.count)
		rows *= 2;
	if (err)
		return err;
	patch->mark_mask = rows - 1;
	patch->marks = memory_map(marks_bytes(patch));
	patch->maps = memory_map(sizeof(*patch->maps));
	if (!memory_failed(patch->marks) && !memory_failed(patch->maps)) {
		/* A gate finds its row there, and waits for no page. */
		for (size_t i = 0; i < patch->known.count; i++)
			patch_mark_of(patch, patch->known.tids[i]);
		return read_maps(patch->maps);
	}
	patch_threads_end(patch, 0);
	return -ENOMEM;
}

void patch_threads_end(struct trapline_patch *patch, int is_in_use)
{
	if (!is_in_use && patch->marks && !memory_failed(patch->marks))
		memory_unmap(patch->marks, marks_bytes(patch));
	if (!is_in_use && patch->maps && !memory_failed(patch->maps))
		memory_unmap(patch->maps, sizeof(*patch->maps));
	tasks_free(&patch->known);
	patch->marks = NULL;
	patch->maps = NULL;
}
