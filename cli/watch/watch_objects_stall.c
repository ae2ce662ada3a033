/* SPDX-License-Identifier: MIT */
/*
 * watch_objects_stall.c - the thread that has made an object waits until the register is armed.
 *
 * Only as many threads are stalled as registers are free, and only while the stalled time is below
 * its share of the run. Then the record of the call is read, the register moved, and the thread
 * continues.
 */
#include "base/clock.h"
#include "cli/message.h"
#include "cli/watch/watch_objects.h"

#include <errno.h>
#include <unistd.h>

#define BATCHES_MAX 64
#define PERCENT_DEFAULT 10
#define FREE_OF_PRICE_NS 50000000u

void watch_objects_stall(struct watch_objects *o, const struct session *session,
			 struct trapline_event_opts *opts)
{
	char why[300] = "";

	if (o->set->no_stall)
		return;
	int err = watch_stall_open(session->pid, why, sizeof(why), &o->stall);

	if (err) {
		cli_note(
			session->name,
			"cannot stall threads at %s: %s; what they do before the register is armed is "
			"not seen",
			o->at.where, why);
		return;
	}
	opts->flags |= TRAPLINE_STOP;
	opts->signal = (uint32_t)watch_stall_signal(o->stall);
}

static void allow_next(struct watch_objects *o)
{
	double percent = o->set->stall > 0 ? o->set->stall : PERCENT_DEFAULT;
	double run_ns = (double)(clock_now_ns() - o->started_ns);
	bool is_cheap = (double)o->counts.stalled_ns < FREE_OF_PRICE_NS + run_ns * percent / 100;
	uint64_t n = 0;

	for (size_t i = 0; is_cheap && i < o->slots.count; i++)
		n += !o->holder[i];
	trapline_event_stop_next(o->at.event, n);
}

void watch_objects_stall_start(struct watch_objects *o, struct session *session)
{
	char why[300] = "";

	if (watch_stall_trace(o->stall, why, sizeof(why))) {
		cli_note(
			session->name,
			"cannot stall threads at %s: %s; what they do before the register is armed is "
			"not seen",
			o->at.where, why);
		watch_stall_close(o->stall);
		o->stall = NULL;
		return;
	}
	session->is_waited_by_poll = true;
	o->started_ns = clock_now_ns();
	allow_next(o);
}

/* Those of the stalled threads that now have a register. */
static void count_in_time(struct watch_objects *o)
{
	for (size_t i = 0; i < o->slots.count; i++) {
		struct object *object = o->holder[i];
		if (!object || !object->is_stalled || !watch_stall_has(o->stall, object->tid))
			continue;
		object->is_stalled = false;
		o->counts.in_time++;
	}
}

/* The record of a stalled call was written before the thread stopped. */
static void serve_stalled(struct watch_objects *o, size_t stalled)
{
	o->lag_ns = 0;
	watch_objects_fill(o);
	count_in_time(o);
	o->counts.stalled += stalled;
	o->counts.stalled_ns += watch_stall_go(o->stall);
}

static int drain(struct trapline *t, trapline_callback fn)
{
	int sum = 0;

	for (int i = 0; i < BATCHES_MAX; i++) {
		int given = trapline_poll(t, 0, fn);
		if (given <= 0)
			return sum || !given ? sum : given;
		sum += given;
	}
	return sum;
}

int watch_objects_poll(struct watch_objects *o, struct session *session, struct trapline *t,
		       int timeout_ms, trapline_callback fn)
{
	if (!o->stall)
		return trapline_poll(t, timeout_ms, fn);
	int given = drain(t, fn);
	if (!given)
		watch_stall_wait(o->stall, trapline_fd(t), timeout_ms);
	size_t stalled = watch_stall_look(o->stall);
	int more = drain(t, fn);
	if (stalled)
		serve_stalled(o, stalled);
	else
		watch_objects_fill(o);
	allow_next(o);
	if (session->command && watch_stall_has_ended(o->stall, &session->child_status))
		session->child_ended = true;
	return more > 0 && given > 0 ? given + more : more ? more : given;
}
