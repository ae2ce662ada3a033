/* SPDX-License-Identifier: MIT */
/* create.c - see create.h: a row of the table reaches life, and is given back. */
#include "core/create.h"

#include <errno.h>
#include <pthread.h>

#include "base/atomic.h"
#include "base/sys.h"
#include "core/explain.h"
#include "core/opts_copy.h"
#include "core/target.h"
#include "event/arm.h"
#include "event/control.h"
#include "event/table.h"
#include "event/tracepoint/tracepoint.h"
#include "event/uprobe/uprobe.h"
#include "trap/inflight.h"

static void create_undo(struct trapline_event *ev)
{
	event_disarm(ev);
	event_release(ev);
}

/*
 * In this order: no new call, no new hit, wait for callbacks, wait for calls, and only then
 * release.
 */
void event_close(struct trapline_event *ev)
{
	uint32_t live = EVENT_LIVE;
	int ends = 1;

	if (!atomic_cas(&ev->state, &live, EVENT_CLOSING))
		return;
	if (ev->owner_pid != sys_getpid()) {
		/*
		 * A forked child: its copies of the descriptors are closed, the parent's event
		 * stays.
		 */
		event_give(ev);
		return;
	}
	atomic_add(&ev->generation, 1u);
	atomic_set(&ev->wanted, 0);
	event_sync(ev);
	if (ev->callback || ev->records)
		ends = !inflight_wait(ev->pid, ev->index);
	if (ev->records && !ends)
		ev->target->code_ring_stays = 1;
	event_end(ev, create_undo);
}

int event_create(struct trapline *t, const struct wish *wish,
		 const struct trapline_event_opts *opts, struct trapline_event **out)
{
	struct trapline_event_opts o;

	failed_forget();
	if (!t || !out)
		return failed(-EINVAL, FAILED_ARGUMENT, "target or out is NULL");
	int err = opts_copy(&o, sizeof(o), opts);
	if (!err)
		err = check_event_opts(t, &o);
	if (!err && o.flags & TRAPLINE_SEVERAL && !wish->sites && !wish->is_kernel)
		err = failed(-EINVAL, FAILED_ARGUMENT,
			     "TRAPLINE_SEVERAL is for trapline_break_sites()");
	if (!err && o.flags & TRAPLINE_EVERYWHERE && !wish->is_kernel)
		err = failed(-EINVAL, FAILED_ARGUMENT,
			     "TRAPLINE_EVERYWHERE is for trapline_break_kernel()");
	if (!err && t->owner_pid != sys_getpid())
		err = failed(-ESRCH, FAILED_TARGET, "opened before fork()");
	if (err)
		return err;

	pthread_mutex_lock(&t->lock);
	struct trapline_event *ev = event_new(t, &o);
	if (!ev) {
		pthread_mutex_unlock(&t->lock);
		return failed(-ENFILE, FAILED_EVENT, "256 events are open");
	}
	err = event_describe(ev, wish);
	/*
	 * The callback may run before this returns, and a thread may call with a row it had closed.
	 */
	atomic_set(&ev->state, EVENT_LIVE);
	if (!err)
		err = event_open(t, ev, wish, &o);
	if (err)
		event_close(ev); /* its callback may be running */
	else
		*out = ev;
	pthread_mutex_unlock(&t->lock);
	return err;
}

int event_create_counter(struct trapline *t, enum trapline_counter what,
			 const struct trapline_event_opts *opts, struct trapline_event **out)
{
	struct wish wish = { .access = TRAPLINE_AMOUNT, .counter = what };
	struct trapline_event_opts o;
	int err = opts_copy(&o, sizeof(o), opts);

	if (err)
		return err;
	wish.period = o.period;
	return event_create(t, &wish, opts, out);
}

int event_call(struct trapline_event *ev)
{
	if (!ev || ev->owner_pid != sys_getpid() || event_enter(ev))
		return failed(-ESRCH, FAILED_EVENT,
			      "the event is closed, or the call comes from a forked child");
	return 0;
}

int event_switch(struct trapline_event *ev, uint32_t on)
{
	int err = event_call(ev);

	if (err)
		return err;
	if (on && ev->mechanism == TRAPLINE_BY_UPROBE)
		err = uprobes_attach_again(ev);
	if (on && ev->mechanism == TRAPLINE_BY_TRACEPOINT)
		err = tracepoints_attach_again(ev);
	if (!err) {
		atomic_set(&ev->wanted, on);
		event_sync(ev);
	}
	event_leave(ev);
	return err ? failed(err, FAILED_EVENT, "the programs cannot be set again") : 0;
}

int event_detach(struct trapline_event *ev)
{
	int err = event_call(ev);

	if (err)
		return err;
	atomic_set(&ev->wanted, 0);
	event_sync(ev);
	if (ev->mechanism == TRAPLINE_BY_UPROBE)
		err = uprobes_rest(ev);
	if (ev->mechanism == TRAPLINE_BY_TRACEPOINT)
		tracepoints_rest(ev);
	event_leave(ev);
	return err ? failed(err, FAILED_EVENT, "another thread enables it or lets it rest") : 0;
}

int event_read(struct trapline_event *ev, uint64_t *out)
{
	int err = event_call(ev);

	if (err)
		return err;
	err = event_read_count(ev, 0, out);
	event_leave(ev);
	return err;
}
