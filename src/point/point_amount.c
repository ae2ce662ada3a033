/* SPDX-License-Identifier: MIT */
/*
 * point_amount.c - points by a counter of the PMU: its interrupts come late.
 *
 * The counter itself has no period: what a thread has used up is read, never summed up from
 * interrupts. Another event of the same kind has a period that ends early enough, and its program
 * stops the process. What is lost here is noticed: the process is stopped when the counter is
 * seen past the point.
 */
#include <errno.h>

#include "base/atomic.h"
#include "base/sys.h"
#include "core/create.h"
#include "core/explain.h"
#include "point/point_amount.h"
#include "point/point_api.h"
#include "point/point_leg.h"
#include "point/point_trust.h"

/* A counter that found no location in the PMU reads as the end of a file from then on. */
int leg_read_amount(const struct leg *leg, uint64_t *out)
{
	ssize_t n = sys_read(leg->amount->roots.fds[0], out, sizeof(*out));

	if (n < 0)
		return failed((int)n, FAILED_EVENT, "cannot read the counter");
	return n == sizeof(*out) ?
		       0 :
		       failed(-EBUSY, FAILED_EVENT,
			      "another event took the counter's slot in the PMU: end what "
			      "counts there (perf stat, the kernel's nmi_watchdog)");
}

static int open_alarm(struct leg *leg, uint64_t period, struct trapline_event **out)
{
	TRAPLINE_OPTS(event, opts);

	opts.flags = TRAPLINE_QUIET | TRAPLINE_DISABLED;
	opts.scope = TRAPLINE_THREADS;
	opts.tids = &leg->amount->only_tid;
	opts.tid_count = 1;
	opts.period = period;
	return event_create_counter(leg->target, (enum trapline_counter)leg->amount->counter, &opts,
				    out);
}

static int run_until_alarm(struct leg *leg, uint64_t period)
{
	struct trapline_event *alarm;
	int err = open_alarm(leg, period, &alarm);

	if (err)
		return err;
	leg->counter = alarm->control;
	leg->counter_stops = 0;
	atomic_set(&alarm->control->stop_at, 1);
	event_switch(alarm, 1);
	err = leg_go(leg);
	leg->counter = NULL;
	event_close(alarm);
	return err;
}

int leg_near_amount(struct leg *leg, uint64_t count)
{
	const struct point_trust *trust = point_trust((enum trapline_counter)leg->amount->counter);
	uint64_t now;

	if (trust->err)
		return failed(trust->err, FAILED_EVENT, trust->why);
	/* While it runs, nothing that is read states how far the point is. */
	int err = leg_stand(leg);
	if (!err)
		err = leg_read_amount(leg, &now);
	if (err)
		return err;
	if (now > count)
		return point_missed(now, count);
	if (count - now < trust->early + trust->near)
		return 0;
	leg->amount_end = count;
	err = run_until_alarm(leg, count - now - trust->early);
	if (!err)
		err = leg_read_amount(leg, &now);
	return !err && now > count ? point_missed(now, count) : err;
}
