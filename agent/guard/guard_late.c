/* SPDX-License-Identifier: MIT */
/*
 * guard_late.c - the detector in a process that ran before: it comes, and goes without a trace in
 * the code.
 *
 * A thread of the agent sleeps until the command has ended, also by SIGKILL: the kernel wakes it
 * when the command's lock goes away. Then nothing is sampled any more, and no page is without
 * access. Blocks that are still in use have to be known by free(): its jump stays until the last
 * one is gone.
 *
 * A child that the process forks is sampled too, but no thread of Trapline is there: it asks the
 * lock before each sample. Then its functions do what they did, and free() keeps its jump until the
 * child ends.
 */
#include "agent/guard/guard_late.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <trapline/trapline.h>

#include "agent/guard/guard.h"
#include "agent/zydis.h"
#include "base/after_fork.h"
#include "base/atomic.h"
#include "base/sys.h"
#include "decoder_name.h"
#include "event/fires.h"
#include "guest/late_trap.h"
#include "guest/moved.h"
#include "guest/own_thread.h"
#include "guest/run.h"
#include "guest/segv.h"
#include "guest/signals.h"
#include "heap/heap_death.h"
#include "heap/heap_fork.h"
#include "heap/heap_watch.h"
#include "trap/install.h"

#define STACK_BYTES (128u << 10)
#define LOOK_NS 20000000
#define LOOK_MOST_NS 1000000000
#define ANSWER_NS 1000000

enum late_state {
	LATE_IDLE,
	LATE_RUNS,
	LATE_LEAVES, /* free() has its jump */
};

static AFTER_FORK struct {
	uint32_t state;
	bool has_trap;	      /* watches raise it */
	pthread_mutex_t lock; /* of jumps: not for the program's threads */
} late = { .lock = PTHREAD_MUTEX_INITIALIZER };

static AFTER_FORK struct run late_run;

static int stop_for_program(void)
{
	heap_watch_end();
	return 0;
}

/* The program's calls lead to Trapline already. */
static int take_trap(void)
{
	int err = late_trap_take(stop_for_program, true);

	if (!err)
		late_trap_look_again();
	return err;
}

/* No watch is there. A trap in libc, in place of a jump, needs Trapline's handler. */
static void leave_trap(void)
{
	if (!late_jumps_have_trap())
		late_trap_give_back((signals_set_action)guard_next("sigaction"));
}

/*
 * Only where no thread has SIGTRAP blocked: a trap would wait there, and the program could see it.
 */
static void start_late_watches(struct heap_region *region)
{
	int err = -EPERM;

	if (region->settings.growth) {
		leave_trap();
		return;
	}
	if (region->settings.are_traps_blocked) {
		snprintf(region->why_unwatched, sizeof(region->why_unwatched),
			 "a thread blocks SIGTRAP");
	} else {
		/* What no register raises is not taken from the program. */
		err = event_register_fires() ? take_trap() : -ENODEV;
		signals_spare_stacks(!err);
		if (!err)
			err = heap_watch_start();
		if (err)
			trapline_explain(err, region->why_unwatched, sizeof(region->why_unwatched));
	}
	late.has_trap = !err;
	if (!err)
		return;
	leave_trap();
	counter_add(&region->counters[HEAP_UNWATCHED], 1u);
}

AT_FORK static bool is_command_there(void)
{
	const struct heap_region *region = late_run.region;

	return atomic_get(&region->run.state) == RUN_ARMED && run_has_command(&late_run);
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
		run_forget_parent(&late_run);
	}
	errno = saved;
}

AT_FORK static void late_forked(void)
{
	static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;

	if (atomic_get(&late.state) == LATE_IDLE) {
		run_forget_parent(&late_run);
		return;
	}
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
	run_forget_parent(&late_run);
}

/*
 * What frees and looks must know of blocks before there is one. And SIGSEGV is taken before the
 * command unblocks it in threads of the program: one that is sent to them waits as it would without
 * us.
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
	/* A signal that is blocked without its marker was blocked before. */
	signals_are_late(1);
	err = late_jumps_place(region->run.why, sizeof(region->run.why), &refused);
	if (err)
		return err;
	late_allocator(region->allocator, sizeof(region->allocator));
	region->refused_jumps = refused.count;
	memcpy(region->refused_names, refused.names, sizeof(refused.names));
	late_jumps_lead_first();
	err = heap_range.bytes ? heap_start_again(region) : heap_start(region);
	if (err) {
		snprintf(region->run.why, sizeof(region->run.why), "%s",
			 err != -EBUSY	? strerror(-err) :
			 heap_is_growth ? "its growth was searched before: restart it for errors" :
					  "it was searched for errors before: restart it for "
					  "--growth");
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

/*
 * SIGSEGV is open in threads that believe it blocked: until the command has blocked it again it
 * stays Trapline's.
 */
static bool are_masks_open(void)
{
	const struct heap_region *region = late_run.region;

	return atomic_get(&region->unblocked) && !atomic_get(&region->are_masks_back);
}

/*
 * A thread of the program may have been in sigaction(2), behind its jump, while SIGSEGV was taken
 * or given back.
 */
static void look_at_signal_again(void *region)
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
}

static void stop(struct heap_region *region)
{
	pthread_mutex_lock(&late.lock);
	heap_end();
	heap_stop();
	/* It may have stopped before its watches began. */
	heap_watch_end();
	late_trap_rest();
	pthread_mutex_unlock(&late.lock);
	atomic_set(&region->run.state, (uint32_t)RUN_STOPPED);
}

static void give_back(struct heap_region *region)
{
	pthread_mutex_lock(&late.lock);
	if (!are_masks_open())
		segv_leave();
	moved_wait();
	leave_trap();
	leave_jumps(region);
	late_trap_end();
	pthread_mutex_unlock(&late.lock);
}

/* A run before may have left blocks. With the lock of jumps. */
static int take_or_give_up(struct heap_region *region)
{
	heap_before_sample = NULL;
	atomic_set(&late.state, (uint32_t)LATE_RUNS);
	const int err = take(region);
	if (err)
		leave_jumps(region);
	return err;
}

/* A forked child may not have noticed yet that the run of its parent is over. */
static void late_comes(int is_late)
{
	if (heap_before_sample)
		heap_before_sample();
	if (atomic_get(&late_run.is_taken))
		return;
	/*
	 * A thread of Trapline would leave an arena of malloc() behind, of 64 MiB. take() reports a
	 * failure.
	 */
	zydis_open();
	pthread_mutex_lock(&late.lock);
	late_jumps_find();
	pthread_mutex_unlock(&late.lock);
}

static int late_arm(void *region, int is_late)
{
	heap_self.busy = 1; /* nothing of this thread is the program's */
	pthread_mutex_lock(&late.lock);
	const int err = take_or_give_up(region);
	pthread_mutex_unlock(&late.lock);
	return err;
}

/*
 * The command that does not answer is gone, or could not unblock SIGSEGV: both end in late_leave().
 */
static int late_sample(void *shared)
{
	struct heap_region *region = shared;

	atomic_set(&region->run.state, (uint32_t)RUN_TAKEN);
	own_thread_shuts();
	const uint32_t answer = wait_for(&region->may_sample, HEAP_ANSWER_MOST_NS);
	own_thread_opens();
	if (answer != HEAP_MAY_SAMPLE)
		return -ETIMEDOUT;
	pthread_mutex_lock(&late.lock);
	region->run.error = sample();
	pthread_mutex_unlock(&late.lock);
	return 0;
}

/*
 * For a program that sets its handlers without libc: for SIGSEGV that is recorded, and it
 * continues.
 */
static int late_tick(uint64_t passed_ns)
{
	struct heap_region *region = late_run.region;

	(void)passed_ns;
	if (late.has_trap && !trap_is_installed()) {
		own_thread_opens();
		trap_install();
		heap_watch_end();
		own_thread_shuts();
		late.has_trap = false;
		snprintf(region->why_unwatched, sizeof(region->why_unwatched), "%s",
			 RUN_REPLACED_TRAP);
		counter_add(&region->counters[HEAP_UNWATCHED], 1u);
	}
	if (!atomic_get(&heap_is_over))
		segv_take_again();
	return 0;
}

static void late_leave(void *shared)
{
	struct heap_region *region = shared;

	stop(region);
	own_thread_shuts();
	if (are_masks_open())
		wait_for(&region->are_masks_back, HEAP_ANSWER_MOST_NS);
	own_thread_opens();
	give_back(region);
}

static void late_ended(void *shared)
{
	const struct heap_region *region = shared;

	if (atomic_get(&region->run.state) == RUN_ENDED)
		look_at_signal_again(shared);
	wait_for_last();
}

static AFTER_FORK struct run late_run = {
	.option = "heap=",
	.magic = HEAP_MAGIC,
	.bytes = sizeof(struct heap_region),
	.flags = RUN_ARMS_AT_ONCE | RUN_LIVES_ON | RUN_OWN_TABLE,
	.stack_bytes = STACK_BYTES,
	.comes = late_comes,
	.arm = late_arm,
	.begin = late_sample,
	.tick = late_tick,
	.armed = look_at_signal_again,
	.end = late_leave,
	.ended = late_ended,
	.fork_begins = heap_fork_begins,
	.fork_ended = heap_fork_ended,
	.forked = late_forked,
	.lock = KEPT_FD_NONE,
};

/* ---- for the library, in a process that searches its own heap ---- */

__attribute__((visibility("default"))) int trapline_heap_begin(struct heap_region *region);
__attribute__((visibility("default"))) void trapline_heap_end(void);

/* The region is the object's if its state is not new any more. 0 or -errno. */
int trapline_heap_begin(struct heap_region *region)
{
	if (region->share.magic != HEAP_MAGIC || region->share.bytes != sizeof(*region))
		return -ELIBBAD;
	if (run_take(&late_run, region, -1))
		return -EBUSY;
	own_thread_prepare();
	heap_self.busy++;
	pthread_mutex_lock(&late.lock);
	late_jumps_find();
	int err = take_or_give_up(region);
	if (!err) {
		err = sample();
		if (err)
			leave_jumps(region);
	}
	pthread_mutex_unlock(&late.lock);
	heap_self.busy--;
	if (err)
		run_forget(&late_run);
	atomic_set(&region->run.state, (uint32_t)(err ? RUN_FAILED : RUN_ARMED));
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
	struct heap_region *region = late_run.region;

	heap_self.busy++;
	stop(region);
	give_back(region);
	run_forget(&late_run);
	atomic_set(&region->run.state, (uint32_t)RUN_ENDED);
	heap_self.busy--;
	/*
	 * Without the thread the functions stay changed until the next search: they work all the
	 * same.
	 */
	if (atomic_get(&late.state) == LATE_LEAVES)
		own_thread_start(pthread_create, STACK_BYTES, run_wait_for_last, NULL);
}

/* Called from outside (cli/inject). */
__attribute__((visibility("default"))) int trapline_agent_call(const char *options);

int trapline_agent_call(const char *options)
{
	struct run *const tools[] = { &late_run };

	return run_call(tools, 1, options, NULL);
}

__attribute__((destructor)) static void late_end(void)
{
	if (atomic_get(&late.state) == LATE_RUNS)
		heap_end();
}
