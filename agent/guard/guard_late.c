/* SPDX-License-Identifier: MIT */
/*
 * guard_late.c - the detector in a process that ran before: it comes, and goes without a trace in the code.
 *
 * A thread of the agent sleeps until the command has ended, also by SIGKILL: the kernel wakes it when the
 * command's lock goes away. Then nothing is sampled any more, and no page is without access. Blocks that
 * are still in use have to be known by free(): its jump stays until the last one is gone.
 *
 * A child that the process forks is sampled too, but no thread of ours is there: it asks the lock before each
 * sample. Then its functions do what they did, and free() keeps its jump until the child ends.
 */
#include "agent/guard/guard_late.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#include <trapline/trapline.h>

#include "agent/guard/guard.h"
#include "agent/zydis.h"
#include "base/atomic.h"
#include "base/memory.h"
#include "base/sys.h"
#include "code/kept_fd.h"
#include "decoder_name.h"
#include "guest/environment.h"
#include "guest/moved.h"
#include "guest/own_thread.h"
#include "guest/segv.h"
#include "guest/share.h"
#include "guest/signals.h"
#include "heap/heap_death.h"
#include "heap/heap_watch.h"
#include "trap/install.h"

#define HEAP_OPTION "heap="
#define STACK_BYTES (128u << 10)
#define LOOK_NS 20000000
#define LOOK_MOST_NS 1000000000
#define ANSWER_NS 1000000

enum late_state {
	LATE_IDLE,
	LATE_RUNS,
	LATE_LEAVES, /* free() has its jump */
};

static struct {
	uint32_t state;
	pthread_mutex_t lock; /* of jumps: not for the program's threads */
	struct heap_region *region;
	struct heap_region *last; /* of the run before: a thread may still be about to count there */
	struct kept_fd file;
	bool has_fork_handler;
} late = { .lock = PTHREAD_MUTEX_INITIALIZER, .file = KEPT_FD_NONE };

static int stop_for_program(void)
{
	heap_watch_end();
	return 0;
}

/* Only where no thread has SIGTRAP blocked: a trap would wait there, and the program could see it. */
static void start_late_watches(struct heap_region *region)
{
	int err = -EPERM;

	if (region->settings.are_traps_blocked) {
		snprintf(region->why_unwatched, sizeof(region->why_unwatched),
			 "a thread blocks SIGTRAP");
	} else {
		signals_prepare(stop_for_program);
		signals_spare_stacks(1);
		err = heap_watch_start();
		if (err)
			trapline_explain(err, region->why_unwatched, sizeof(region->why_unwatched));
		signals_are_ours(!err);
	}
	if (err)
		counter_add(&region->counters[HEAP_UNWATCHED], 1u);
}

static bool is_command_there(void)
{
	/* The parent's thread waits for the same lock by the same open file: ours is its own too. */
	return atomic_get(&late.region->run.state) == RUN_ARMED && kept_fd_is_ours(&late.file) &&
	       sys2(SYS_flock, late.file.fd, LOCK_EX | LOCK_NB) == -EWOULDBLOCK;
}

/* In any thread of a child, in malloc(): nothing may wait. */
static void look_for_command(void)
{
	uint32_t runs = LATE_RUNS;
	int saved = errno;

	/* A child by vfork() has the memory of its parent. */
	if (heap_pid == sys_getpid() && !is_command_there() &&
	    atomic_cas(&late.state, &runs, (uint32_t)LATE_LEAVES)) {
		late_jumps_forked();
		heap_stop();
		segv_leave();
		signals_are_ours(0);
	}
	errno = saved;
}

static void late_forked(void)
{
	static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;

	if (atomic_get(&late.state) == LATE_IDLE)
		return;
	/* The thread that may have had it is not here. */
	late.lock = unlocked;
	if (atomic_get(&late.state) == LATE_RUNS && is_command_there()) {
		heap_forked();
		heap_before_sample = look_for_command;
		return;
	}
	late_jumps_forked();
	heap_forked_alone();
	signals_disown(SIGSEGV);
	signals_are_ours(0);
	atomic_set(&late.state, (uint32_t)LATE_LEAVES);
}

/*
 * What frees and looks must know of blocks before there is one. And SIGSEGV is taken before the command unblocks it
 * in threads of the program: one that is sent to them waits as it would without us.
 */
static int take(struct heap_region *region)
{
	struct late_refused refused;
	int err = zydis_open() ? -ELIBACC : 0;

	if (err) {
		snprintf(region->run.why, sizeof(region->run.why),
			 DECODER_NAME " is not installed");
		return err;
	}
	signals_note_own_masks();
	err = late_jumps_place(region->run.why, sizeof(region->run.why), &refused);
	if (err)
		return err;
	late_allocator(region->allocator, sizeof(region->allocator));
	region->refused_jumps = refused.count;
	memcpy(region->refused_names, refused.names, sizeof(refused.names));
	late_jumps_lead_first();
	err = heap_range.bytes ? heap_start_again(region) : heap_start(region);
	if (err) {
		snprintf(region->run.why, sizeof(region->run.why), "%s", strerror(-err));
		return err;
	}
	start_late_watches(region);
	return 0;
}

static int sample(void)
{
	late_jumps_lead();
	return segv_take_again();
}

/* 0: the command has not answered. */
static uint32_t wait_for(const uint32_t *answer, uint64_t most_ns)
{
	const struct timespec pause = { 0, ANSWER_NS };

	for (uint64_t ns = 0; !atomic_get(answer) && ns < most_ns; ns += ANSWER_NS)
		sys_nap(&pause);
	return atomic_get(answer);
}

/* SIGSEGV is open in threads that believe it blocked: until the command has blocked it again it stays ours. */
static bool are_masks_open(void)
{
	return atomic_get(&late.region->unblocked) && !atomic_get(&late.region->are_masks_back);
}

/* A thread of the program may have been in sigaction(2), behind its jump, while SIGSEGV was taken or given back. */
static void look_at_signal_again(void)
{
	moved_wait();
	own_thread_opens();
	pthread_mutex_lock(&late.lock);
	if (atomic_get(&heap_is_over) && !are_masks_open()) {
		segv_leave();
		heap_death_leave();
	} else {
		segv_take_again();
	}
	pthread_mutex_unlock(&late.lock);
	own_thread_shuts();
}

/* The last sampled block may be gone at once, or never. */
static void wait_for_last(void)
{
	struct timespec pause = { 0, LOOK_NS };

	own_thread_rests();
	while (atomic_get(&late.state) == LATE_LEAVES) {
		own_thread_opens();
		pthread_mutex_lock(&late.lock);
		if (atomic_get(&late.state) == LATE_LEAVES && !atomic_get(&heap_live) &&
		    !late_jumps_end())
			atomic_set(&late.state, (uint32_t)LATE_IDLE);
		pthread_mutex_unlock(&late.lock);
		own_thread_shuts();
		sys_nap(&pause);
		if (2 * pause.tv_nsec < LOOK_MOST_NS)
			pause.tv_nsec *= 2;
	}
}

static void leave_jumps(struct heap_region *region)
{
	late_jumps_leave();
	uint64_t live = atomic_get(&heap_live);
	atomic_set(&late.state, (uint32_t)(live || late_jumps_end() ? LATE_LEAVES : LATE_IDLE));
	region->live = live;
	kept_fd_close(&late.file);
}

static void stop(struct heap_region *region)
{
	pthread_mutex_lock(&late.lock);
	heap_end();
	heap_stop();
	/* It may have stopped before its watches began. */
	heap_watch_end();
	pthread_mutex_unlock(&late.lock);
	atomic_set(&region->run.state, (uint32_t)RUN_STOPPED);
}

static void give_back(struct heap_region *region)
{
	pthread_mutex_lock(&late.lock);
	if (!are_masks_open())
		segv_leave();
	signals_are_ours(0);
	leave_jumps(region);
	pthread_mutex_unlock(&late.lock);
}

static void leave(struct heap_region *region)
{
	stop(region);
	give_back(region);
	atomic_set(&region->run.state, (uint32_t)RUN_ENDED);
}

/* A run before may have left blocks. */
static void give_up(struct heap_region *region, int err)
{
	leave_jumps(region);
	region->run.error = err;
	atomic_set(&region->run.state, (uint32_t)RUN_FAILED);
}

static int take_or_give_up(struct heap_region *region)
{
	pthread_mutex_lock(&late.lock);
	int err = take(region);
	if (err)
		give_up(region, err);
	pthread_mutex_unlock(&late.lock);
	return err;
}

/* The command that does not answer is gone, or could not unblock SIGSEGV: both end in leave(). */
static void sample_when_told(struct heap_region *region)
{
	atomic_set(&region->run.state, (uint32_t)RUN_TAKEN);
	if (wait_for(&region->may_sample, HEAP_ANSWER_MOST_NS) != HEAP_MAY_SAMPLE)
		return;
	own_thread_opens();
	pthread_mutex_lock(&late.lock);
	int err = sample();
	pthread_mutex_unlock(&late.lock);
	own_thread_shuts();
	region->run.error = err;
	atomic_set(&region->run.state, (uint32_t)RUN_ARMED);
}

static void wait_for_command(void)
{
	look_at_signal_again();
	while (kept_fd_is_ours(&late.file) && sys2(SYS_flock, late.file.fd, LOCK_EX) == -EINTR)
		;
}

/* It arms too: in the thread that was borrowed for the call, signals are blocked until it returns. */
static void *run_late(void *arg)
{
	struct heap_region *region = arg;

	own_thread_begins();
	heap_self.busy = 1; /* nothing of this thread is the program's */
	own_thread_opens();
	int err = take_or_give_up(region);
	own_thread_shuts();
	if (!err) {
		sample_when_told(region);
		wait_for_command();
		own_thread_opens();
		stop(region);
		own_thread_shuts();
		if (are_masks_open())
			wait_for(&region->are_masks_back, HEAP_ANSWER_MOST_NS);
		own_thread_opens();
		give_back(region);
		own_thread_shuts();
		atomic_set(&region->run.state, (uint32_t)RUN_ENDED);
		look_at_signal_again();
	}
	wait_for_last();
	return NULL;
}

/* A fork in the middle of the beginning, too, must not leave a child that seems to run. */
static bool take_run(void)
{
	uint32_t idle = LATE_IDLE;
	uint32_t leaves = LATE_LEAVES;

	if (!late.has_fork_handler)
		pthread_atfork(NULL, NULL, late_forked);
	late.has_fork_handler = true;
	return atomic_cas(&late.state, &idle, (uint32_t)LATE_RUNS) ||
	       atomic_cas(&late.state, &leaves, (uint32_t)LATE_RUNS);
}

static void keep_region(struct heap_region *region)
{
	if (late.last)
		memory_unmap(late.last, sizeof(*late.last));
	late.last = late.region;
	late.region = region;
}

/* A thread of ours would leave an arena of malloc() behind, of 64 MiB. take() tells of a failure. */
static void look_up_late(void)
{
	zydis_open();
	pthread_mutex_lock(&late.lock);
	late_jumps_find();
	pthread_mutex_unlock(&late.lock);
}

static int late_begin(const char *path)
{
	struct heap_region *region = share_map_own(path, HEAP_MAGIC, sizeof(*region));
	int file = region ? share_open(path) : -ENOENT;

	/* A forked child may not have noticed yet that the run of its parent is over. */
	if (heap_before_sample)
		heap_before_sample();
	int err = file < 0 ? file : take_run() ? 0 : -EBUSY;

	if (!err) {
		keep_region(region);
		heap_before_sample = NULL;
		kept_fd_take(&late.file, file);
		own_thread_prepare();
		look_up_late();
		err = own_thread_start(pthread_create, STACK_BYTES, run_late, region);
		if (err)
			atomic_set(&late.state, (uint32_t)LATE_IDLE);
		return err;
	}
	if (file >= 0)
		sys_close(file);
	if (region)
		memory_unmap(region, sizeof(*region));
	return err;
}

/* ---- for the library, in a process that searches its own heap ---- */

__attribute__((visibility("default"))) int trapline_heap_begin(struct heap_region *region);
__attribute__((visibility("default"))) void trapline_heap_end(void);

/* The region is the object's if its state is not new any more. 0 or -errno. */
int trapline_heap_begin(struct heap_region *region)
{
	if (region->share.magic != HEAP_MAGIC || region->share.bytes != sizeof(*region))
		return -ELIBBAD;
	if (!take_run())
		return -EBUSY;
	own_thread_prepare();
	heap_before_sample = NULL;
	heap_self.busy++;
	pthread_mutex_lock(&late.lock);
	keep_region(region);
	late_jumps_find();
	int err = take(region);
	if (!err)
		err = sample();
	if (err)
		give_up(region, err);
	else
		atomic_set(&region->run.state, (uint32_t)RUN_ARMED);
	pthread_mutex_unlock(&late.lock);
	heap_self.busy--;
	return err;
}

static void *run_wait_for_last(void *arg)
{
	heap_self.busy = 1;
	wait_for_last();
	return arg;
}

void trapline_heap_end(void)
{
	heap_self.busy++;
	leave(late.region);
	heap_self.busy--;
	/* Without the thread the functions stay changed until the next search: they work all the same. */
	if (atomic_get(&late.state) == LATE_LEAVES)
		own_thread_start(pthread_create, STACK_BYTES, run_wait_for_last, NULL);
}

/* Called from outside (cli/inject). */
__attribute__((visibility("default"))) int trapline_agent_call(const char *options);

int trapline_agent_call(const char *options)
{
	char path[256];

	if (!environment_option(options, HEAP_OPTION, path, sizeof(path)))
		return -EINVAL;
	return late_begin(path);
}

__attribute__((destructor)) static void late_end(void)
{
	if (atomic_get(&late.state) == LATE_RUNS)
		heap_end();
}
