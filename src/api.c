/* SPDX-License-Identifier: MIT */
/* api.c - public entry points for targets and events: check arguments, call down. */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/atomic.h"
#include "base/sys.h"
#include "open.h"
#include "target.h"
#include "trap/arch.h"
#include "trap/inflight.h"
#include "trap/trap.h"

#define SAMPLE_PERIOD_MIN_NS 20000

int event_create(struct trapline *t, const struct wish *wish,
		 const struct trapline_event_opts *opts, struct trapline_event **out)
{
	struct trapline_event_opts o;

	if (!t || !out)
		return failed(-EINVAL, FAILED_ARGUMENT, "target or out is NULL");
	int err = opts_copy(&o, sizeof(o), opts);
	if (!err)
		err = check_event_opts(t, &o);
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
	/* The callback may run before we return. */
	atomic_set(&ev->state, EVENT_LIVE);
	err = event_open(t, ev, wish, &o);
	if (err)
		event_release(ev);
	else
		*out = ev;
	pthread_mutex_unlock(&t->lock);
	return err;
}

TRAPLINE_API int trapline_watch(struct trapline *t, uint64_t addr, size_t len,
				enum trapline_access access,
				const struct trapline_event_opts *opts,
				struct trapline_event **out)
{
	struct wish wish = {.addr = addr, .len = len, .access = access};

	if (access != TRAPLINE_WRITE && access != TRAPLINE_READ_WRITE)
		return failed(-EINVAL, FAILED_ARGUMENT, "access must be write or read-write");
	return event_create(t, &wish, opts, out);
}

TRAPLINE_API int trapline_break(struct trapline *t, uint64_t addr,
				const struct trapline_event_opts *opts,
				struct trapline_event **out)
{
	struct wish wish = {.addr = addr, .access = TRAPLINE_EXECUTE};

	return event_create(t, &wish, opts, out);
}

TRAPLINE_API int trapline_break_sites(struct trapline *t, const uint64_t *addrs, size_t count,
				      const struct trapline_event_opts *opts,
				      struct trapline_event **out)
{
	struct wish wish = {.access = TRAPLINE_EXECUTE, .sites = addrs, .site_count = count};
	struct trapline_event_opts o;
	int err = opts_copy(&o, sizeof(o), opts);

	if (err)
		return err;
	if (!addrs || !count || count > UINT32_MAX)
		return failed(-EINVAL, FAILED_ARGUMENT, "no addresses");
	if (o.callback || o.filter_fd || o.scope != TRAPLINE_PROCESS ||
	    o.flags & (TRAPLINE_FOLLOW_FORKS | TRAPLINE_KERNEL))
		return failed(-EINVAL, FAILED_ARGUMENT,
			      "many places give records of the whole process only");
	return event_create(t, &wish, opts, out);
}

TRAPLINE_API int trapline_count(struct trapline *t, enum trapline_counter what,
				const struct trapline_event_opts *opts,
				struct trapline_event **out)
{
	struct wish wish = {.access = TRAPLINE_AMOUNT, .counter = what};
	struct trapline_event_opts o;
	int err = opts_copy(&o, sizeof(o), opts);

	if (err)
		return err;
	wish.period = o.period;
	return event_create(t, &wish, opts, out);
}

TRAPLINE_API int trapline_sample(struct trapline *t, uint64_t period_ns,
				 const struct trapline_event_opts *opts,
				 struct trapline_event **out)
{
	struct wish wish = {.access = TRAPLINE_AMOUNT,
			    .counter = TRAPLINE_TASK_CLOCK,
			    .period = period_ns};

	if (period_ns < SAMPLE_PERIOD_MIN_NS)
		return failed(-EINVAL, FAILED_ARGUMENT, "period_ns is under 20000");
	return event_create(t, &wish, opts, out);
}

static int is_ours(const struct trapline_event *ev)
{
	return ev && atomic_get(&ev->state) == EVENT_LIVE && ev->owner_pid == sys_getpid();
}

TRAPLINE_API int trapline_event_enable(struct trapline_event *ev)
{
	if (!is_ours(ev))
		return -ESRCH;
	atomic_set(&ev->wanted, 1);
	event_sync(ev);
	return 0;
}

TRAPLINE_API int trapline_event_disable(struct trapline_event *ev)
{
	if (!is_ours(ev))
		return -ESRCH;
	atomic_set(&ev->wanted, 0);
	event_sync(ev);
	return 0;
}

TRAPLINE_API int trapline_event_rearm(struct trapline_event *ev, uint64_t more)
{
	if (!is_ours(ev))
		return -ESRCH;
	if (!ev->has_limit || !more || more > INT64_MAX)
		return -EINVAL;
	if (ev->control)
		atomic_add(&ev->control->budget, (int64_t)more);
	else
		atomic_add(&ev->limit, more);
	event_sync(ev);
	return 0;
}

TRAPLINE_API int trapline_event_move(struct trapline_event *ev, uint64_t addr)
{
	return is_ours(ev) ? event_move(ev, addr, 0) : -ESRCH;
}

TRAPLINE_API int trapline_event_aim(struct trapline_event *ev, uint64_t addr, size_t len)
{
	if (!len || len > 8)
		return -EINVAL;
	return is_ours(ev) ? event_move(ev, addr, (uint32_t)len) : -ESRCH;
}

TRAPLINE_API int trapline_event_read(struct trapline_event *ev, uint64_t *out)
{
	return is_ours(ev) ? event_read_count(ev, 0, out) : -ESRCH;
}

TRAPLINE_API enum trapline_mechanism trapline_event_mechanism(const struct trapline_event *ev)
{
	return (enum trapline_mechanism)ev->mechanism;
}

TRAPLINE_API void trapline_event_close(struct trapline_event *ev)
{
	uint32_t live = EVENT_LIVE;

	if (!ev || !atomic_cas(&ev->state, &live, EVENT_CLOSING))
		return;
	if (ev->owner_pid != sys_getpid()) {
		/* A forked child: its copies of the descriptors are closed, the parent's event stays. */
		event_give(ev);
		return;
	}
	atomic_add(&ev->generation, 1u);
	atomic_set(&ev->wanted, 0);
	if (event_lock(ev) == 0)
		event_unlock(ev);
	event_disarm(ev);
	if (ev->callback)
		inflight_wait(ev->pid, ev->index);
	event_release(ev);
}

TRAPLINE_API int trapline_hit_register(const struct trapline_hit *hit, unsigned int number,
				       uint64_t *out)
{
	if (hit->context)
		return arch_register(hit->context, number, out);
	if (!hit->regs)
		return -ENODATA;
	if (number >= RECORD_REGS)
		return -EINVAL;
	*out = hit->regs[number];
	return 0;
}

TRAPLINE_API int trapline_hit_text(const struct trapline_hit *hit, unsigned int number,
				   const char **out)
{
	if (number >= RECORD_REGS)
		return -EINVAL;
	if (!(hit->texts >> number & 1))
		return -ENODATA;

	uint32_t before = hit->event->texts & ((1u << number) - 1);

	*out = hit->text + (size_t)__builtin_popcount(before) * RECORD_TEXT_BYTES;
	return 0;
}

TRAPLINE_API void trapline_hit_leave(const struct trapline_hit *hit)
{
	if (hit->context)
		trap_leave();
}

TRAPLINE_API unsigned int trapline_version(void)
{
	return TRAPLINE_VERSION;
}
