/* SPDX-License-Identifier: MIT */
/*
 * point_api.c - trapline_run_to().
 *
 * In two legs. The counter's own program stops the process when it has counted `count` hits. For
 * code it is on an instruction that is cheap to probe, no matter what the point is. A counter of
 * the PMU stops it shortly before (point_amount.c), and the second leg inspects the count too.
 * Then, while the process is stopped, a breakpoint at ip is armed. Its program rejects all
 * occurrences but the right one, and stops the process before the instruction. One more hit of the
 * counter means that the point was missed; it stops the process too.
 *
 * Until a stop reaches the other threads they pass a few more times. A counter of the occurrences
 * of ip itself is therefore left some occurrences early, and the breakpoint counts the rest. A
 * thread that arrives as the last of them stops itself.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <trapline/condition.h>
#include <trapline/tools.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/sys.h"
#include "base/tasks.h"
#include "cond/compile.h"
#include "core/create.h"
#include "core/explain.h"
#include "core/opts_copy.h"
#include "core/target.h"
#include "event/arch_regs.h"
#include "event/event.h"
#include "event/uprobe/uprobe.h"
#include "point/point.h"
#include "point/point_amount.h"
#include "point/point_api.h"
#include "point/point_leg.h"

#define LOOK_EVERY_NS 50000
#define PASSES_LEFT 16
#define LOOKS_PER_READING 20 /* of a counter that runs on another processor: it is interrupted */

static char missed_by[96];

int point_missed(uint64_t count, uint64_t wanted)
{
	snprintf(missed_by, sizeof(missed_by),
		 "the point was missed: the count is %llu, %llu past it", (unsigned long long)count,
		 (unsigned long long)(count - wanted));
	return failed(-ERANGE, FAILED_EVENT, missed_by);
}

static int has_stopped(const struct leg *leg)
{
	return leg->is_past || (leg->arrival && atomic_get(&leg->arrival->stops)) ||
	       (leg->counter && atomic_get(&leg->counter->stops) != leg->counter_stops);
}

/*
 * No program has stopped it at the point, so nothing will: an interrupt was lost, or no pass came.
 * The same where the counter does not count any more; the next reader reports it.
 */
static void stop_if_past(struct leg *leg)
{
	uint64_t now;

	if (!leg_read_amount(leg, &now) && now <= leg->amount_end)
		return;
	leg->is_past = 1;
	sys2(SYS_kill, leg->target->pid, SIGSTOP);
}

/* Until a program has stopped the process and all its threads are. */
static int wait_for_stop(struct leg *leg)
{
	const struct timespec pause = { 0, LOOK_EVERY_NS };

	for (unsigned int looks = 1;; looks++) {
		int stopped = has_stopped(leg) ? point_is_stopped(leg->target->pid) : 0;

		if (stopped)
			return stopped < 0 ? stopped : 0;
		if (!has_stopped(leg) && point_is_stopped(leg->target->pid) == -ESRCH)
			return -ESRCH;
		if (leg->deadline_ns && clock_now_ns() > leg->deadline_ns)
			return -ETIMEDOUT;
		if (leg->amount && !has_stopped(leg) && looks % LOOKS_PER_READING == 0)
			stop_if_past(leg);
		sys_nap(&pause);
	}
}

int leg_stand(const struct leg *leg)
{
	const struct timespec pause = { 0, LOOK_EVERY_NS };
	int stopped = point_is_stopped(leg->target->pid);

	if (!stopped)
		sys2(SYS_kill, leg->target->pid, SIGSTOP);
	while (!stopped) {
		sys_nap(&pause);
		stopped = point_is_stopped(leg->target->pid);
	}
	return stopped < 0 ? stopped : 0;
}

int leg_go(struct leg *leg)
{
	leg->is_past = 0;
	if (sys2(SYS_kill, leg->target->pid, SIGCONT))
		return -ESRCH;
	return wait_for_stop(leg);
}

/*
 * Whether each occurrence of ip that may be the point is a hit of the counter, and no other is, and
 * a breakpoint beside the uprobe can accept occurrences.
 */
static int counts_passes(const struct trapline_event *counter, pid_t tid,
			 const struct trapline_point *p)
{
	const struct condition *counted = counter->condition;
	const struct condition *wanted = p->condition ? &p->condition->ir : NULL;

	if (!ARCH_RESUMES_BREAKPOINTS || tid || p->registers_used || counter->has_limit ||
	    counter->skip || !uprobe_is_at(counter, p->ip))
		return 0;
	if (!counted || !wanted)
		return counted == wanted;
	/* Each event has hits of its own. */
	return !cond_uses(wanted, COND_HITS) && !cond_uses(wanted, COND_HITS_IN_THREAD) &&
	       !memcmp(counted, wanted, sizeof(*counted));
}

/* Each thread may be on its way past the counter when the stop is asked for. */
static uint64_t passes_left_to_breakpoint(pid_t pid)
{
	struct task_list list = { 0 };
	uint64_t threads = tasks_read(pid, &list) ? 1 : list.count;

	tasks_free(&list);
	return PASSES_LEFT + 4 * threads;
}

/*
 * To the count, or leg->early passes short of it, or less. A process that runs may pass it before
 * it is asked to stop: then it was missed.
 */
static int run_to_count(struct leg *leg, uint64_t count)
{
	uint64_t end = count > leg->early ? count - leg->early : 0;
	int err = leg->early ? leg_stand(leg) : 0;
	uint64_t now = atomic_get(&leg->counter->granted);

	if (err)
		return err;
	if (now > count)
		return point_missed(now, count);
	if (now >= end)
		return 0;
	leg->counter_stops = atomic_get(&leg->counter->stops);
	atomic_set(&leg->counter->stop_at, end);
	err = leg_go(leg);
	atomic_set(&leg->counter->stop_at, 0);
	now = atomic_get(&leg->counter->granted);
	if ((!err || err == -ETIMEDOUT) && now > count)
		return point_missed(now, count);
	return !err && !leg->early && now != count ? point_missed(now, count) : err;
}

static int open_arrival(const struct leg *leg, pid_t tid, const struct trapline_point *p,
			struct trapline_event **out)
{
	struct wish wish = {
		.addr = p->ip,
		.access = TRAPLINE_EXECUTE,
		.amount = leg->amount,
		.amount_at = p->count,
	};
	struct trapline_condition *registers = malloc(sizeof(*registers));
	TRAPLINE_OPTS(event, opts);

	if (!registers)
		return -ENOMEM;
	int err = point_registers(p->registers_used, p->regs, &registers->ir);
	if (err) {
		free(registers);
		return failed(err, FAILED_ARGUMENT,
			      "registers_used names a register that does not exist");
	}
	opts.flags = TRAPLINE_QUIET | TRAPLINE_DISABLED;
	opts.scope = tid ? TRAPLINE_THREADS : TRAPLINE_PROCESS;
	opts.tids = tid ? &tid : NULL;
	opts.tid_count = tid != 0;
	opts.condition = p->registers_used ? registers : p->condition;
	err = event_create(leg->target, &wish, &opts, out);
	free(registers);
	return err;
}

/* Runs to the point. The first arrival that the program lets pass stops the process. */
static int run_to_place(struct leg *leg, pid_t tid, const struct trapline_point *p)
{
	struct trapline_event *arrival;
	int err = open_arrival(leg, tid, p, &arrival);

	if (err)
		return err;
	leg->arrival = arrival->control;
	leg->amount_end = p->count;
	atomic_set(&arrival->control->stop_at, 1 + leg->passes_left);
	if (leg->counter) {
		leg->counter_stops = atomic_get(&leg->counter->stops);
		atomic_set(&leg->counter->stop_at, p->count + 1 + leg->early);
	}
	event_switch(arrival, 1);
	err = leg_go(leg);
	uint64_t now = leg->counter ? atomic_get(&leg->counter->granted) : p->count;
	int arrived = atomic_get(&arrival->control->stops) != 0;
	if (!err && leg->amount)
		err = leg_read_amount(leg, &now);
	if (leg->counter)
		atomic_set(&leg->counter->stop_at, 0);
	event_close(arrival);
	if (err)
		return err;
	if (!arrived || (leg->amount && now != p->count))
		return point_missed(now, p->count);
	int there = point_find_thread(leg->target->pid, tid, p->ip);
	return there ? there : failed(-ERANGE, FAILED_EVENT, "the thread is not where it stopped");
}

static int check(const struct trapline *t, pid_t tid, const struct trapline_point *p)
{
	const char *wrong = NULL;

	if (t->pid == t->owner_pid)
		wrong = "a process cannot stop itself and continue";
	else if (p->counter && (p->counter->state != EVENT_LIVE || p->counter->pid != t->pid))
		wrong = "the counter must be an open event of the target";
	else if (p->counter && event_is_readable_amount(p->counter))
		wrong = !p->ip ? "an amount comes late: the point needs an ip too" :
			tid != p->counter->only_tid ?
				 "the thread must be the one whose amount is counted" :
				 NULL;
	else if (p->counter &&
		 (!(p->counter->flags & TRAPLINE_QUIET) || !p->counter->attr.sample_period))
		wrong = "the counter must have TRAPLINE_QUIET, or count an amount of one thread, "
			"without a period";
	else if (!p->counter && !p->ip)
		wrong = "a point needs a counter or an ip";
	else if (p->condition && p->registers_used)
		wrong = "a point takes a condition or registers, not both";
	else if (!p->ip && (p->condition || p->registers_used))
		wrong = "a condition or registers need an ip";
	return wrong ? failed(-EINVAL, FAILED_ARGUMENT, wrong) : 0;
}

TRAPLINE_API int trapline_run_to(struct trapline *t, pid_t tid, const struct trapline_point *point,
				 int timeout_ms)
{
	struct trapline_point p;
	int err = opts_copy(&p, sizeof(p), point);

	if (err)
		return err;
	if (!t || !point)
		return failed(-EINVAL, FAILED_ARGUMENT, "target or point is NULL");
	err = check(t, tid, &p);
	if (err)
		return err;
	struct leg leg = { .target = t };
	if (timeout_ms >= 0)
		leg.deadline_ns = clock_now_ns() + (uint64_t)timeout_ms * 1000000u;
	if (p.counter && event_is_readable_amount(p.counter)) {
		leg.amount = p.counter;
		err = leg_near_amount(&leg, p.count);
	} else if (p.counter) {
		leg.counter = p.counter->control;
		if (counts_passes(p.counter, tid, &p))
			leg.early = passes_left_to_breakpoint(t->pid);
		err = run_to_count(&leg, p.count);
		if (leg.early)
			leg.passes_left = p.count - atomic_get(&leg.counter->granted);
	}
	if (!err && p.ip)
		err = run_to_place(&leg, tid, &p);
	return err == -ETIMEDOUT ? failed(err, FAILED_EVENT, "the point was not reached in time") :
	       err == -ESRCH ? failed(err, FAILED_TARGET, "the process ended before the point") :
			       err;
}
