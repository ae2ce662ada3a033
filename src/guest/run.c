/* SPDX-License-Identifier: MIT */
/* run.c - see run.h. */
#include "guest/run.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/file.h>

#include <trapline/trapline.h>

#include "base/after_fork.h"
#include "base/atomic.h"
#include "base/memory.h"
#include "base/own_fd.h"
#include "base/sys.h"
#include "code/poke/poke.h"
#include "guest/action_gate.h"
#include "guest/environment.h"
#include "guest/outside.h"
#include "guest/own_stack.h"
#include "guest/own_table.h"
#include "guest/own_thread.h"
#include "guest/sanitizer.h"
#include "guest/share.h"
#include "guest/signals.h"
#include "trap/install.h"

#define WAIT_STEP_NS 1000000
#define LOOK_EVERY_NS 20000000
#define CALL_STEPS 1000
/* Numbers below are those that programs take, and close. */
#define LOWEST_FD 900

static const struct timespec wait_step = { 0, WAIT_STEP_NS };

/* ---- the end of its command ---- */

static struct run_words *words_at(void *region)
{
	return (struct run_words *)((char *)region + SHARE_HEAD_BYTES);
}

static struct run_words *words_of(const struct run *run)
{
	return words_at(run->region);
}

/* It states when it ends, since its lock shows nothing any more. */
AT_FORK static int has_command_by_number(const struct run *run)
{
	const struct share_head *head = run->region;

	if (atomic_get(&words_of(run)->stop))
		return 0;
	/*
	 * A forked child: the thread of its parent, as long as there is one, reports it in the
	 * region.
	 */
	return (pid_t)sys0(SYS_getppid) == run->pid || sys2(SYS_kill, head->observer, 0) != -ESRCH;
}

AT_FORK int run_has_command(const struct run *run)
{
	if (!kept_fd_is_ours(&run->lock))
		return run->flags & RUN_LIVES_ON && has_command_by_number(run);
	const long err = sys_of_fd(SYS_flock, run->lock.fd, LOCK_EX | LOCK_NB, 0, 0, 0);
	return err == -EINTR || err == -EWOULDBLOCK;
}

/* 0; -ECANCELED: the command has ended before. */
static int wait_while(const struct run *run, enum run_state state)
{
	while (atomic_get(&words_of(run)->state) == state) {
		/* It may have given up the lock when it had answered. */
		if (!run_has_command(run))
			return atomic_get(&words_of(run)->state) == state ? -ECANCELED : 0;
		sys_nap(&wait_step);
	}
	return 0;
}

/* Until then a signal that Trapline raises goes to the action of the program. */
static void look_at_action(const struct run *run)
{
	if (!run->replaced || trap_is_installed())
		return;
	own_thread_opens();
	trap_install();
	run->replaced();
	own_thread_shuts();
}

/* The server of the table waits for nothing: a thread that has another one waits by itself. */
static void wait_for_lock(const struct run *run)
{
	const struct timespec step = { 0, LOOK_EVERY_NS };
	const int is_elsewhere = run->has_table && !run->is_here;
	const int fd = is_elsewhere ? own_table_bring(run->lock.fd) : run->lock.fd;
	const int can_wait = !is_elsewhere || (fd >= 0 && fd < OWN_FD_FAR);

	while (!can_wait && run_has_command(run))
		sys_nap(&step);
	while (can_wait && kept_fd_is_ours(&run->lock) &&
	       sys_of_fd(SYS_flock, fd, LOCK_EX, 0, 0, 0) == -EINTR)
		;
	if (is_elsewhere && fd >= 0)
		sys_close(fd);
}

/* The kernel wakes the thread when the lock goes away, also by SIGKILL. */
static void wait_for_command(const struct run *run)
{
	const struct timespec step = { 0, LOOK_EVERY_NS };

	while (run->tick && run_has_command(run)) {
		sys_nap(&step);
		if (run->sees_calls)
			look_at_action(run);
		if (run->tick(LOOK_EVERY_NS))
			return;
	}
	if (!run->tick)
		wait_for_lock(run);
}

/* ---- one run at a time ---- */

int run_take(struct run *run, void *region, int lock)
{
	uint32_t none = 0;

	if ((run->flags & RUN_IS_ONCE && run->region) || !atomic_cas(&run->is_taken, &none, 1u))
		return -EBUSY;
	if (run->last)
		memory_unmap(run->last, run->bytes);
	run->last = run->region;
	run->region = region;
	run->pid = sys_getpid();
	kept_fd_take(&run->lock, lock);
	if (run->forked)
		run_follow_forks(run);
	return 0;
}

/* Its thread does so itself. */
static void drop_table(struct run *run)
{
	if (run->has_table && !run->has_thread) {
		own_table_end();
		run->has_table = 0;
	}
}

void run_forget(struct run *run)
{
	own_stacks_end();
	kept_fd_close(&run->lock);
	drop_table(run);
	atomic_set(&run->is_taken, 0u);
}

AT_FORK void run_forget_parent(struct run *run)
{
	atomic_set(&run->is_taken, 0u);
}

/* ---- arming and ending ---- */

static int run_arm(struct run *run, int is_late)
{
	struct run_words *words = words_of(run);
	const int err = run->arm(run->region, is_late);

	if (err)
		atomic_set(&words->error, err);
	return err;
}

static void drop_region(struct run *run, void **region)
{
	if (*region)
		memory_unmap(*region, run->bytes);
	*region = NULL;
}

static void end_calls(struct run *run, int is_outside)
{
	if (!run->sees_calls)
		return;
	run->sees_calls = 0;
	own_thread_opens();
	run->calls->end(is_outside);
	own_thread_shuts();
}

/*
 * What a thread can still be at stays, until the next run. One that never armed, and is the only
 * one, has nothing.
 */
static void tell_end(struct run *run, enum run_state state)
{
	const int may_give = run->give && (state == RUN_ENDED || !(run->flags & RUN_IS_ONCE));
	void *region = run->region;

	own_stacks_end();
	kept_fd_close(&run->lock);
	const int is_outside = may_give && !outside_wait(OUTSIDE_MOST_NS);
	const int is_free = is_outside && !run->give();
	/*
	 * The command waits for the end before it blocks SIGTRAP again: until then what the program
	 * reads stays right.
	 */
	if (run->flags & RUN_OPENS_TRAP && run->sees_calls)
		run->calls->rest();
	else
		end_calls(run, is_outside);
	if (!is_free)
		atomic_set(&run->is_taken, 0u);
	atomic_set(&words_at(region)->state, (uint32_t)state);
	if (run->ended)
		run->ended(region);
	end_calls(run, is_outside);
	if (!is_free)
		return;
	drop_region(run, &run->last);
	if (run->flags & RUN_IS_ONCE)
		memory_unmap(region, run->bytes); /* no other comes */
	else
		drop_region(run, &run->region);
	atomic_set(&run->is_taken, 0u);
}

static void wait_for_end(struct run *run)
{
	if (run->armed)
		run->armed(run->region);
	wait_for_command(run);
	own_thread_opens();
	run->end(run->region);
	own_thread_shuts();
	tell_end(run, RUN_ENDED);
}

static int arm_late(struct run *run)
{
	int err = run->flags & RUN_ARMS_AT_ONCE ? 0 : wait_while(run, RUN_NEW);

	if (err)
		return err;
	own_thread_opens();
	if (run->sees_calls)
		run->calls->look_again();
	err = run_arm(run, 1);
	if (!err && (!run->begin || !run->begin(run->region)))
		atomic_set(&words_of(run)->state, (uint32_t)RUN_ARMED);
	own_thread_shuts();
	return err;
}

static void enter(const struct run *run)
{
	own_thread_begins();
	if (run->has_table)
		own_table_enter(run->is_here);
}

/* Another run may have taken the row by now: what is asked is the thread's own. */
static void leave(int has_table)
{
	if (!has_table)
		return;
	own_table_leave();
	own_table_end();
}

/*
 * It arms too: in the thread that was borrowed for the call, signals are blocked until it returns.
 */
static void *run_late(void *arg)
{
	struct run *run = arg;
	const int has_table = run->has_table;

	enter(run);
	if (arm_late(run))
		tell_end(run, RUN_FAILED);
	else
		wait_for_end(run);
	leave(has_table);
	return NULL;
}

static void *run_started(void *arg)
{
	struct run *run = arg;
	const int has_table = run->has_table;

	enter(run);
	wait_for_end(run);
	leave(has_table);
	return NULL;
}

static int start_thread(struct run *run, void *(*function)(void *))
{
	run->is_here = own_table_is_here();
	own_thread_prepare();
	const int err = own_thread_start(pthread_create, run->stack_bytes, function, run);
	run->has_thread = !err;
	return err;
}

/*
 * Before the thread is there nothing is begun: what the agent itself calls until then is not a hit.
 */
static int arm_started(struct run *run)
{
	struct run_words *words = words_of(run);
	int err = run_arm(run, 0);

	if (err)
		return err;
	err = start_thread(run, run_started);
	if (!err)
		return run->begin ? run->begin(run->region) : 0;
	run->end(run->region);
	trapline_explain(err, words->why, sizeof(words->why));
	atomic_set(&words->error, err);
	return err;
}

/* Without its command the program shall not run as if it were observed. */
static void wait_or_exit(const struct run *run, enum run_state state)
{
	if (wait_while(run, state))
		sys1(SYS_exit_group, 1);
}

static void start_with_command(struct run *run)
{
	struct run_words *words = words_of(run);

	wait_or_exit(run, RUN_READY);
	/* The program may run when the command reports it: armed, or with what it has instead. */
	if (atomic_get(&words->state) == RUN_ARM) {
		const int err = arm_started(run);
		atomic_set(&words->state, (uint32_t)(err ? RUN_FAILED : RUN_ARMED));
		if (!err)
			return;
	}
	if (run->flags & RUN_ASKS)
		wait_or_exit(run, RUN_FAILED);
	run_forget(run);
}

/* Another state than RUN_NEW: this is a program that the observed one started. */
static int start_locked(struct run *run, void *region, int lock)
{
	uint32_t *const state = &words_at(region)->state;
	uint32_t found = RUN_NEW;
	const int is_first = atomic_cas(state, &found, (uint32_t)RUN_READY);

	if (!is_first && !(run->flags & RUN_FOLLOWS_EXEC && found == RUN_ARMED))
		return -EBUSY;
	if (run->comes)
		run->comes(0);
	const int err = run_take(run, region, lock);
	if (err)
		return err;
	if (is_first)
		start_with_command(run);
	else if (arm_started(run))
		run_forget(run);
	return 0;
}

/* ---- signals ---- */

static int is_preloaded; /* so that the program's calls come through us */
static int makes_no_calls;
static int (*end_for_program)(void); /* see signals_prepare() */

void run_make_no_calls(void)
{
	makes_no_calls = 1;
}

/*
 * Without Trapline's handler the program has SIGTRAP for itself: the search or the budget was
 * refused.
 */
AT_FORK static void keep_signals(void)
{
	if (is_preloaded && trap_is_installed())
		signals_are_ours(1);
	else if (is_preloaded)
		signals_give_back();
}

/* There are int3 for a while, or events that raise SIGTRAP. */
static void take_signals(const struct run *run, int (*end_all)(void))
{
	is_preloaded = 1;
	signals_are_ours(0);
	signals_prepare(end_all);
	if (!(run->flags & RUN_TRAPS_ON_STACKS))
		signals_spare_stacks(1);
	if (!run->start)
		signals_libc_is_changed();
}

/* ---- forks ---- */

/*
 * Taken over a fork: a run that begins to follow learns of its end only if it learned of its
 * beginning.
 */
static AFTER_FORK pthread_mutex_t fork_lock = PTHREAD_MUTEX_INITIALIZER;
static struct run *following;

AT_FORK static void fork_begins(void)
{
	pthread_mutex_lock(&fork_lock);
	for (const struct run *run = following; run; run = run->next)
		if (run->fork_begins)
			run->fork_begins();
}

AT_FORK static void fork_ended(void)
{
	for (const struct run *run = following; run; run = run->next)
		if (run->fork_ended)
			run->fork_ended();
	pthread_mutex_unlock(&fork_lock);
}

AT_FORK static void forked(void)
{
	static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
	const int were_ours = is_preloaded ? signals_are_ours(0) : 0;

	fork_lock = unlocked;
	own_table_forked();
	action_gates_forked();
	for (struct run *run = following; run; run = run->next) {
		atomic_set_if_other(&run->has_table, 0);
		if (run->forked)
			run->forked();
	}
	if (is_preloaded && makes_no_calls) /* the handler is as it was: the kernel is not asked */
		signals_are_ours(were_ours);
	else
		keep_signals();
}

void run_follow_forks(struct run *run)
{
	static uint32_t has_handlers;

	if (atomic_swap(&run->follows_forks, 1u))
		return;
	pthread_mutex_lock(&fork_lock);
	run->next = following;
	following = run;
	pthread_mutex_unlock(&fork_lock);
	if (!atomic_swap(&has_handlers, 1u))
		pthread_atfork(fork_begins, fork_ended, forked);
}

/* ---- coming in ---- */

static void spare_numbers(void)
{
	if (!own_fd_lowest)
		own_fd_lowest = LOWEST_FD;
}

/*
 * A program that has just been started may have its numbers disturbed instead: it does not run yet.
 */
static int take_table(struct run *run, int is_late)
{
	run->has_thread = 0;
	const int err = run->flags & RUN_OWN_TABLE ? own_table_begin() : -ENOTSUP;

	run->has_table = !err;
	return run->flags & RUN_OWN_TABLE && is_late ? err : 0;
}

/* Or -errno, and the region is unmapped. */
static int with_lock(struct run *run, void *region, const char *path, int is_late,
		     int (*begin)(struct run *run, void *region, int lock))
{
	int err = take_table(run, is_late);
	const int lock = err ? err : share_open(path);
	err = lock < 0 ? lock : begin(run, region, lock);
	if (err && lock >= 0)
		sys_close(lock);
	if (err)
		drop_table(run);
	if (err)
		memory_unmap(region, run->bytes);
	return err;
}

static void start_one(struct run *run, const char *path, int (*end_all)(void))
{
	spare_numbers();
	void *region = share_map(path, run->magic, run->bytes);
	if (!region)
		return;
	if (!(run->flags & RUN_OWN_SIGNALS))
		take_signals(run, end_all);
	if (run->start)
		run->start(region);
	else
		with_lock(run, region, path, 0, start_locked);
	if (!(run->flags & RUN_OWN_SIGNALS))
		keep_signals();
}

void run_start(struct run *const *table, size_t count, int (*end_all)(void))
{
	const char *options = getenv("TRAPLINE_OPTIONS");
	char path[256];

	if (getauxval(AT_SECURE) || sanitizer_is_here())
		return;
	for (size_t i = 0; i < count; i++) {
		struct run *run = table[i];

		if ((!run->start && !run->arm) ||
		    !environment_option(options, run->option, path, sizeof(path)))
			continue;
		if (run->flags & RUN_FORGETS)
			environment_forget(run->option);
		start_one(run, path, end_all);
	}
}

/*
 * SIGTRAP is taken before the command opens it in threads: one that is sent to them waits as
 * before.
 */
static int take_late(struct run *run, void *region, int lock)
{
	const int err = run_take(run, region, lock);

	if (!err && run->calls)
		run->sees_calls = !run->calls->begin(end_for_program, run->flags & RUN_OPENS_TRAP);
	return err;
}

static int attach_locked(struct run *run, void *region, int lock)
{
	if (run->comes)
		run->comes(1);
	int err = take_late(run, region, lock);
	if (err)
		return err;
	err = start_thread(run, run_late);
	if (!err)
		return 0;
	if (run->sees_calls)
		run->calls->end(false);
	run->sees_calls = 0;
	/* What is given back is not what a later run would unmap. */
	run->region = NULL;
	atomic_set(&run->is_taken, 0u);
	run->lock = (struct kept_fd)KEPT_FD_NONE;
	return err;
}

static void end_kept_calls(const struct run *run)
{
	if (!run->sees_calls)
		return;
	if (run->flags & RUN_OPENS_TRAP) {
		run->calls->rest();
		run->calls->wait_for_masks();
	}
	const int is_outside = !outside_wait(OUTSIDE_MOST_NS);
	own_thread_opens();
	run->calls->end(is_outside);
	own_thread_shuts();
}

/* For a tool that has no thread of its own there. */
static void *keep_calls(void *arg)
{
	const struct timespec step = { 0, LOOK_EVERY_NS };
	struct run *run = arg;
	const int has_table = run->has_table;

	enter(run);
	while (atomic_get(&run->is_attaching))
		sys_nap(&wait_step);
	while (!run->is_over()) {
		sys_nap(&step);
		if (run->sees_calls)
			look_at_action(run);
	}
	end_kept_calls(run);
	leave(has_table);
	return NULL;
}

/*
 * Where libc cannot be changed the calls go to the kernel. The thread knows when the table is
 * needed no more.
 */
static int attach_kept(struct run *run, void *region)
{
	if (run->comes)
		run->comes(1);
	int err = take_table(run, 1);
	if (err)
		return err;
	run->sees_calls = !run->calls->begin(end_for_program, run->flags & RUN_OPENS_TRAP);
	if (run->sees_calls)
		run->calls->look_again();
	atomic_set(&run->is_attaching, 1u);
	err = start_thread(run, keep_calls);
	if (!err)
		err = run->attach(region);
	else if (run->sees_calls)
		run->calls->end(false);
	drop_table(run);
	atomic_set(&run->is_attaching, 0u);
	return err;
}

static int attach_one(struct run *run, const char *path)
{
	void *region = share_map_own(path, run->magic, run->bytes);

	if (!region)
		return -ENOENT;
	if (run->arm)
		return with_lock(run, region, path, 1, attach_locked);
	return run->is_over ? attach_kept(run, region) : run->attach(region);
}

static int do_call(struct run *const *table, size_t count, const char *options)
{
	char path[256];

	for (size_t i = 0; i < count; i++) {
		struct run *run = table[i];
		const size_t n = strlen(run->option);

		if (run->call && !strncmp(options, run->option, n))
			return run->call(options + n);
		if (!run->call && environment_option(options, run->option, path, sizeof(path)))
			return attach_one(run, path);
	}
	return -EINVAL;
}

static int take_call(pid_t *caller, pid_t self)
{
	pid_t before = 0;

	if (atomic_cas(caller, &before, self))
		return 1;
	/* A thread that has ended is in no call. */
	return sys_tgkill(sys_getpid(), before, 0) == -ESRCH && atomic_cas(caller, &before, self);
}

/* One call at a time: there are several commands, and each gives up a call that takes long. */
int run_call(struct run *const *table, size_t count, const char *options, int (*end_all)(void))
{
	static pid_t caller;
	const pid_t self = sys_gettid();

	for (int i = 0; !take_call(&caller, self); i++) {
		if (i == CALL_STEPS)
			return -EALREADY;
		sys_nap(&wait_step);
	}
	spare_numbers();
	end_for_program = end_all;
	poke_keeps_mappings = 1;
	/* The command gives the thread that makes the call a table of its own, where it can. */
	own_table_spare();
	const int result = do_call(table, count, options);
	own_table_leave();
	atomic_set(&caller, 0);
	return result;
}
