/* SPDX-License-Identifier: MIT */
/* throttle_api.c - public entry points for budgets. */
#include <errno.h>
#include <string.h>

#include "base/atomic.h"
#include "base/sys.h"
#include "core/create.h"
#include "core/explain.h"
#include "core/opts_copy.h"
#include "core/target.h"
#include "event/arm.h"
#include "throttle/throttle.h"
#include "throttle/throttle_open.h"
#include "trap/inflight.h"

#define BURST_NS 20000000u
#define DEBT_NS 1000000u
/* Inspects the account: so often that a sleep is short, so seldom that it costs under 1 %. */
#define CHECK_CPU_NS 2000000u
#define CHECKS_PER_SECOND 200u
#define CHECK_CPU_MIN_NS 100000u

static enum trapline_action on_tick(const struct trapline_hit *hit)
{
	throttle_check(hit->arg);
	return TRAPLINE_GO_ON;
}

static int check_opts(const struct trapline *t, const struct trapline_throttle_opts *o)
{
	const uint32_t known = TRAPLINE_THROTTLE_SLEEP | TRAPLINE_THROTTLE_EACH |
			       TRAPLINE_THROTTLE_KERNEL;
	const char *wrong = NULL;

	if (t->pid != t->owner_pid)
		wrong = "a thread sleeps in its own context: only this process can be throttled";
	else if (!o->per_second)
		wrong = "per_second is 0";
	else if (o->flags & ~known)
		wrong = "unknown flag";
	else if (o->flags & TRAPLINE_THROTTLE_EACH && o->counter != TRAPLINE_TASK_CLOCK &&
		 o->counter != TRAPLINE_PAGE_FAULTS)
		wrong = "each thread's own amount is known for CPU time and page faults only";
	else if (o->counter == TRAPLINE_TASK_CLOCK && o->check && o->check < CHECK_CPU_MIN_NS)
		wrong = "check is under 100 us: the checks would cost too much time";
	return wrong ? failed(-EINVAL, FAILED_ARGUMENT, wrong) : 0;
}

static uint64_t choose_check(const struct trapline_throttle_opts *o)
{
	if (o->check)
		return o->check;
	if (o->counter == TRAPLINE_TASK_CLOCK)
		return CHECK_CPU_NS;
	uint64_t check = o->per_second / CHECKS_PER_SECOND;
	return check ? check : 1;
}

/*
 * The clock of the CPU time of one thread, for any caller: clock_gettime(2) names it so. The event
 * does not count what the kernel does for the thread, and to sleep off a small debt is a good part
 * of that.
 */
static int clock_of_thread(pid_t tid)
{
	return ~tid * 8 | 6; /* CPUCLOCK_SCHED | CPUCLOCK_PERTHREAD_MASK of the kernel */
}

static void fill(struct trapline_throttle *th, const struct trapline_throttle_opts *o)
{
	th->flags = o->flags;
	th->counter = o->counter;
	th->scope = o->scope;
	th->clock = o->scope == TRAPLINE_CALLER && o->counter == TRAPLINE_TASK_CLOCK ?
			    clock_of_thread(sys_gettid()) :
			    0;
	th->check = choose_check(o);
	th->burst_ns = o->burst_ns ? o->burst_ns : BURST_NS;
	th->debt_ns = o->debt_ns ? o->debt_ns : DEBT_NS;
	th->throttled = o->throttled;
	th->unthrottled = o->unthrottled;
	th->arg = o->arg;
}

static int open_event(struct trapline *t, struct trapline_throttle *th,
		      const struct trapline_throttle_opts *o)
{
	TRAPLINE_OPTS(event, opts);

	opts.callback = on_tick;
	opts.arg = th;
	opts.scope = o->scope;
	opts.tids = o->tids;
	opts.tid_count = o->tid_count;
	opts.period = th->check;
	/* No sample before the account is open. */
	opts.flags = TRAPLINE_DISABLED;
	if (o->flags & TRAPLINE_THROTTLE_KERNEL)
		opts.flags |= TRAPLINE_KERNEL;
	return event_create_counter(t, (enum trapline_counter)o->counter, &opts, &th->event);
}

/* region NULL: the account is this process's own. */
int throttle_open(struct trapline *t, const struct trapline_throttle_opts *o,
		  struct throttle_region *region, uint32_t budget, struct trapline_throttle **out)
{
	int err = check_opts(t, o);

	if (err)
		return err;
	struct trapline_throttle *th = throttle_take();
	if (!th)
		return failed(-ENFILE, FAILED_EVENT, "4 budgets are open");
	fill(th, o);
	err = open_event(t, th, o);
	if (err) {
		throttle_give(th);
		return err;
	}
	if (region)
		throttle_share(th, region, budget);
	throttle_begin(th, o->per_second);
	event_switch(th->event, 1);
	*out = th;
	return 0;
}

TRAPLINE_API int trapline_throttle(struct trapline *t, const struct trapline_throttle_opts *opts,
				   struct trapline_throttle **out)
{
	struct trapline_throttle_opts o;
	int err = opts_copy(&o, sizeof(o), opts);

	if (err)
		return err;
	if (!t || !out)
		return failed(-EINVAL, FAILED_ARGUMENT, "target or out is NULL");
	return throttle_open(t, &o, NULL, 0, out);
}

TRAPLINE_API uint64_t trapline_throttle_debt(struct trapline_throttle *th)
{
	return throttle_debt(th);
}

TRAPLINE_API uint64_t trapline_throttle_pay(struct trapline_throttle *th)
{
	return throttle_pay(th);
}

TRAPLINE_API int trapline_throttle_stats(struct trapline_throttle *th,
					 struct trapline_throttle_stats *out)
{
	size_t size = out->size;
	struct trapline_throttle_stats s = {
		.size = size,
		.checks = counter_get(&th->checks),
		.sleeps = counter_get(&th->sleeps),
		.slept_ns = counter_get(&th->slept_ns),
		.throttled = counter_get(&th->throttled_count),
	};

	if (size < sizeof(size_t) || size > sizeof(s))
		return -EINVAL;
	s.drawn = throttle_drawn(th) - th->drawn_before;
	uint64_t due = s.drawn / th->check;
	s.missed = due > s.checks && !(th->flags & TRAPLINE_THROTTLE_EACH) ? due - s.checks : 0;
	memcpy(out, &s, size);
	return 0;
}

int throttle_end(struct trapline_throttle *th)
{
	pid_t pid = th->event->pid;
	uint32_t index = th->event->index;

	/* Sleepers see it; closing the event waits until they have left the handler. */
	throttle_wake(th);
	event_close(th->event);
	throttle_give(th);
	return inflight_is_any(pid, index) ? -EBUSY : 0;
}

TRAPLINE_API void trapline_throttle_end(struct trapline_throttle *th)
{
	if (th)
		throttle_end(th);
}
