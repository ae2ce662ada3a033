/* SPDX-License-Identifier: MIT */
/*
 * point_trust.c - the self-test of a counter: can it be used for points of an execution?
 *
 * Three things must be so, and none can be known from the processor's name:
 * - the same code counts the same each time;
 * - no interrupt is lost, also where it comes while the thread is in a system call. (Linux commit
 *   cc1582c231ea, v4.12-rc5, lost them for events that exclude the kernel, and software clocks
 *   still do: perf_exclude_event());
 * - they come late by an amount that has a bound, which is measured.
 * It is tried in a child that computes, or calls, by the very way that points are reached. So what
 * is measured is from the count that was asked for to where the process is.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/sys.h"
#include "core/create.h"
#include "core/target.h"
#include "point/point.h"
#include "point/point_trust.h"

#define COUNTERS (TRAPLINE_SYSCALLS + 1)
#define LAP_ROUNDS 100000u
#define LAP_CALLS 1000u
#define LAPS 3
#define INTERRUPTS 100u
/*
 * Primes, so that they end everywhere in a loop. The first one twice, since where each instruction
 * counts as two (QEMU with -icount shift=1) no point is an odd number of them away.
 */
#define PERIOD (2 * 7919u)
#define PERIOD_CLOCK_NS 100003u /* shorter ones are not what the kernel keeps */
#define LATE_MAX 100000u
#define EARLY_LEAST 256u /* added to twice the latest */
#define NEAR 1000u
#define LOOK_NS 50000
#define LOOKS_PER_READING 20
#define PATIENCE_NS 10000000000u /* of a loaded machine */
#define DIFFERS (-ERANGE)

enum load {
	LOAD_LAPS,
	LOAD_LAPS_OF_CALLS,
	LOAD_COMPUTE,
	LOAD_CALL
};

struct trial {
	enum trapline_counter counter;
	pid_t child;
	uint32_t *laps; /* that the child has done */
	uint64_t deadline_ns;
	struct trapline *target;
	struct trapline_event *count;
	struct trapline_event *alarm;
	uint64_t period; /* 0: it has no interrupts */
	uint64_t base;	 /* the count where the first period begins */
	/* What was seen. */
	uint64_t due;
	uint64_t came;
	uint64_t latest;
};

/* Nothing that a thread of the caller could have been inside of: the child is a fork. */
static void run_child(enum load load, uint32_t *laps)
{
	pid_t self = sys_getpid();

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		if (load == LOAD_LAPS || load == LOAD_LAPS_OF_CALLS || !*laps) {
			atomic_add(laps, 1u);
			sys2(SYS_kill, self, SIGSTOP);
		}
		if (load == LOAD_CALL || load == LOAD_LAPS_OF_CALLS)
			for (unsigned int i = 0; i < LAP_CALLS; i++)
				sys0(SYS_getppid);
		else
			for (volatile uint32_t i = 0; i < LAP_ROUNDS; i++)
				;
	}
}

static void pause_shortly(void)
{
	const struct timespec pause = { 0, LOOK_NS };

	sys_nap(&pause);
}

static int wait_until_stopped(const struct trial *t)
{
	for (;;) {
		int stopped = point_is_stopped(t->child);

		if (stopped)
			return stopped < 0 ? stopped : 0;
		if (clock_now_ns() > t->deadline_ns)
			return -ETIMEDOUT;
		pause_shortly();
	}
}

static int open_counters(struct trial *t)
{
	TRAPLINE_OPTS(event, opts);
	int err = trapline_open(t->child, NULL, &t->target);

	opts.scope = TRAPLINE_THREADS;
	opts.tids = &t->child;
	opts.tid_count = 1;
	if (!err)
		err = event_create_counter(t->target, t->counter, &opts, &t->count);
	opts.flags = TRAPLINE_QUIET | TRAPLINE_STOP | TRAPLINE_DISABLED;
	opts.period = t->period;
	if (!err && t->period)
		err = event_create_counter(t->target, t->counter, &opts, &t->alarm);
	return err;
}

static int trial_begin(struct trial *t, enum load load)
{
	t->deadline_ns = clock_now_ns() + PATIENCE_NS;
	t->laps = mmap(NULL, sizeof(*t->laps), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (t->laps == MAP_FAILED)
		return -ENOMEM;
	t->child = fork();
	if (!t->child)
		run_child(load, t->laps);
	if (t->child < 0)
		return -EAGAIN;
	while (!atomic_get(t->laps) && clock_now_ns() < t->deadline_ns)
		pause_shortly();
	int err = wait_until_stopped(t);
	return err ? err : open_counters(t);
}

static void trial_end(struct trial *t)
{
	trapline_close(t->target);
	if (t->child > 0) {
		kill(t->child, SIGKILL);
		waitpid(t->child, NULL, 0);
	}
	if (t->laps != MAP_FAILED)
		munmap(t->laps, sizeof(*t->laps));
}

static int run_lap(struct trial *t, uint64_t *out)
{
	uint32_t before = atomic_get(t->laps);
	uint64_t from;
	int err = event_read(t->count, &from);

	kill(t->child, SIGCONT);
	while (atomic_get(t->laps) == before && clock_now_ns() < t->deadline_ns)
		pause_shortly();
	if (!err)
		err = wait_until_stopped(t);
	if (!err)
		err = event_read(t->count, out);
	*out -= from;
	return err;
}

/* The first lap begins inside the call that the counter was opened in. */
static int try_laps(struct trial *t, struct point_trust *trust)
{
	uint64_t counted[LAPS + 1] = { 0 };
	int is_calls = t->counter == TRAPLINE_SYSCALLS;
	/* The call that ends a lap is one more. */
	uint64_t least = t->counter == TRAPLINE_TASK_CLOCK ? 1 :
			 is_calls			   ? LAP_CALLS + 1 :
							     LAP_ROUNDS;
	int err = trial_begin(t, is_calls ? LOAD_LAPS_OF_CALLS : LOAD_LAPS);

	for (int i = 0; !err && i <= LAPS; i++)
		err = run_lap(t, &counted[i]);
	trial_end(t);
	if (err)
		return err;
	for (int i = 1; i <= LAPS; i++) {
		if (counted[i] < least)
			snprintf(trust->why, sizeof(trust->why),
				 "a loop of %u %s was counted as %llu",
				 is_calls ? LAP_CALLS : LAP_ROUNDS,
				 is_calls ? "system calls" : "rounds",
				 (unsigned long long)counted[i]);
		else if (counted[i] != counted[1])
			snprintf(trust->why, sizeof(trust->why),
				 "the same loop was counted as %llu and as %llu",
				 (unsigned long long)counted[1], (unsigned long long)counted[i]);
		else
			continue;
		return counted[i] < least ? -EOPNOTSUPP : DIFFERS;
	}
	return 0;
}

/* Until the alarm has stopped it, or is a whole period late: then this thread does. */
static int run_to_alarm(struct trial *t, uint64_t due)
{
	uint64_t stops = atomic_get(&t->alarm->control->stops);
	uint64_t now = 0;

	kill(t->child, SIGCONT);
	for (unsigned int looks = 1; atomic_get(&t->alarm->control->stops) == stops; looks++) {
		if (looks % LOOKS_PER_READING == 0) {
			int err = event_read(t->count, &now);
			if (err)
				return err;
		}
		if (now > due + t->period) {
			kill(t->child, SIGSTOP);
			break;
		}
		if (clock_now_ns() > t->deadline_ns)
			return -ETIMEDOUT;
		pause_shortly();
	}
	return wait_until_stopped(t);
}

static int run_period(struct trial *t)
{
	uint64_t now;
	uint64_t due = t->base + (t->due + 1) * t->period;
	int err = run_to_alarm(t, due);

	if (!err)
		err = event_read(t->count, &now);
	if (err)
		return err;
	t->came = atomic_get(&t->alarm->control->stops) -
		  atomic_get(&t->alarm->control->stops_failed);
	/* More than are due: one was early, and a point before it would be passed. */
	t->due = (now - t->base) / t->period;
	if (t->came == t->due && (now - t->base) % t->period > t->latest)
		t->latest = (now - t->base) % t->period;
	return 0;
}

static int try_interrupts(struct trial *t, enum load load, struct point_trust *trust)
{
	t->due = t->came = 0;
	int err = trial_begin(t, load);

	if (!err)
		err = event_read(t->count, &t->base);
	if (!err)
		err = event_switch(t->alarm, 1);
	while (!err && t->due < INTERRUPTS)
		err = run_period(t);
	trial_end(t);
	if (err || t->came == t->due)
		return err;
	snprintf(trust->why, sizeof(trust->why),
		 "%llu interrupts were due in a loop of %s, %llu arrived",
		 (unsigned long long)t->due, load == LOAD_CALL ? "system calls" : "computing",
		 (unsigned long long)t->came);
	return -EOPNOTSUPP;
}

static int try_all(struct trial *t, struct point_trust *trust)
{
	int laps = try_laps(t, trust);

	if (laps && laps != DIFFERS)
		return laps;
	/*
	 * Each occurrence of the location near a point is inspected, so there is nothing to ask for
	 * early.
	 */
	if (t->counter == TRAPLINE_SYSCALLS) {
		trust->near = UINT64_MAX;
		if (!laps)
			snprintf(trust->why, sizeof(trust->why),
				 "%u laps of %u system calls are equal; no interrupts: a trap at "
				 "each occurrence before the point",
				 LAPS, LAP_CALLS);
		return laps ? -EOPNOTSUPP : 0;
	}
	int err = try_interrupts(t, LOAD_CALL, trust);
	if (!err)
		err = try_interrupts(t, LOAD_COMPUTE, trust);
	if (err || laps)
		return err ? err : -EOPNOTSUPP;
	trust->early = 2 * t->latest + EARLY_LEAST;
	trust->near = NEAR;
	snprintf(
		trust->why, sizeof(trust->why),
		"%u laps are equal; %u interrupts while computing, %u in system calls, none lost, at "
		"most %llu late",
		LAPS, INTERRUPTS, INTERRUPTS, (unsigned long long)t->latest);
	return t->latest > LATE_MAX ? -EOPNOTSUPP : 0;
}

/* Returns whether it is a verdict: what hinders the trial itself may be gone the next time. */
static int decide(enum trapline_counter counter, struct point_trust *trust)
{
	struct trial trial = {
		.counter = counter,
		.period = counter == TRAPLINE_TASK_CLOCK ? PERIOD_CLOCK_NS :
			  counter == TRAPLINE_SYSCALLS	 ? 0 :
							   PERIOD,
		.laps = MAP_FAILED,
	};

	memset(trust, 0, sizeof(*trust));
	if (counter == TRAPLINE_PAGE_FAULTS) {
		/* Counted where it happens, by software: nothing is late. */
		trust->near = 1;
		return 1;
	}
	trust->err = try_all(&trial, trust);
	if (!trust->err || trust->why[0])
		return 1;
	if (trust->err == -ETIMEDOUT) {
		trust->err = -EAGAIN;
		snprintf(trust->why, sizeof(trust->why), "the self-test did not end in time");
	} else {
		trapline_explain(trust->err, trust->why, sizeof(trust->why));
	}
	return 0;
}

const struct point_trust *point_trust(enum trapline_counter counter)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct point_trust known[COUNTERS];
	static int is_known[COUNTERS];

	pthread_mutex_lock(&lock);
	if (!is_known[counter])
		is_known[counter] = decide(counter, &known[counter]);
	pthread_mutex_unlock(&lock);
	return &known[counter];
}
