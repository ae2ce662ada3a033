/* SPDX-License-Identifier: MIT */
/* api.c - public entry points for targets and events: check arguments, call down. */
#include <errno.h>
#include <string.h>

#include "base/atomic.h"
#include "base/sys.h"
#include "core/create.h"
#include "core/explain.h"
#include "core/opts_copy.h"
#include "event/control.h"
#include "event/table.h"
#include "event/uprobe/uprobe_members.h"
#include "record/layout.h"
#include "trap/arch.h"
#include "trap/dispatch.h"

#define SAMPLE_PERIOD_MIN_NS 20000

TRAPLINE_API int trapline_watch(struct trapline *t, uint64_t addr, size_t len,
				enum trapline_access access, const struct trapline_event_opts *opts,
				struct trapline_event **out)
{
	struct wish wish = { .addr = addr, .len = len, .access = access };

	if (access != TRAPLINE_WRITE && access != TRAPLINE_READ_WRITE)
		return failed(-EINVAL, FAILED_ARGUMENT, "access must be write or read-write");
	return event_create(t, &wish, opts, out);
}

TRAPLINE_API int trapline_break(struct trapline *t, uint64_t addr,
				const struct trapline_event_opts *opts, struct trapline_event **out)
{
	struct wish wish = { .addr = addr, .access = TRAPLINE_EXECUTE };

	return event_create(t, &wish, opts, out);
}

TRAPLINE_API int trapline_break_sites(struct trapline *t, const uint64_t *addrs, size_t count,
				      const struct trapline_event_opts *opts,
				      struct trapline_event **out)
{
	struct wish wish = { .access = TRAPLINE_EXECUTE, .sites = addrs, .site_count = count };
	struct trapline_event_opts o;
	int err = opts_copy(&o, sizeof(o), opts);

	if (err)
		return err;
	if (!addrs || !count || count > UINT32_MAX)
		return failed(-EINVAL, FAILED_ARGUMENT, "no addresses");
	if (o.callback || o.filter_fd || o.scope != TRAPLINE_PROCESS || o.flags & TRAPLINE_KERNEL)
		return failed(-EINVAL, FAILED_ARGUMENT,
			      "many addresses give records of the whole process only");
	return event_create(t, &wish, opts, out);
}

TRAPLINE_API int trapline_break_kernel(struct trapline *t, enum trapline_kernel_event what,
				       const uint32_t *numbers, size_t count,
				       const struct trapline_event_opts *opts,
				       struct trapline_event **out)
{
	struct wish wish = { .access = TRAPLINE_EXECUTE,
			     .is_kernel = 1,
			     .kernel_event = (uint32_t)what,
			     .numbers = numbers,
			     .number_count = count };
	struct trapline_event_opts o;
	int err = opts_copy(&o, sizeof(o), opts);

	if (err)
		return err;
	if (o.callback || o.filter_fd || o.scope != TRAPLINE_PROCESS || o.flags & TRAPLINE_KERNEL)
		return failed(-EINVAL, FAILED_ARGUMENT,
			      "events of the kernel give records of the whole process only");
	return event_create(t, &wish, opts, out);
}

TRAPLINE_API int trapline_count(struct trapline *t, enum trapline_counter what,
				const struct trapline_event_opts *opts, struct trapline_event **out)
{
	return event_create_counter(t, what, opts, out);
}

TRAPLINE_API int trapline_sample(struct trapline *t, uint64_t period_ns,
				 const struct trapline_event_opts *opts,
				 struct trapline_event **out)
{
	struct wish wish = { .access = TRAPLINE_AMOUNT,
			     .counter = TRAPLINE_TASK_CLOCK,
			     .period = period_ns };

	if (period_ns < SAMPLE_PERIOD_MIN_NS)
		return failed(-EINVAL, FAILED_ARGUMENT, "period_ns is under 20000");
	return event_create(t, &wish, opts, out);
}

TRAPLINE_API int trapline_event_enable(struct trapline_event *ev)
{
	return event_switch(ev, 1);
}

TRAPLINE_API int trapline_event_disable(struct trapline_event *ev)
{
	return event_switch(ev, 0);
}

TRAPLINE_API int trapline_event_rest(struct trapline_event *ev)
{
	return event_detach(ev);
}

static int rearm(struct trapline_event *ev, uint64_t more)
{
	if (!ev->has_limit || !more || more > INT64_MAX)
		return failed(-EINVAL, FAILED_ARGUMENT,
			      "the event has no limit, or more is 0 or over INT64_MAX");
	if (ev->control)
		atomic_add(&ev->control->budget, (int64_t)more);
	else
		atomic_add(&ev->limit, more);
	event_sync(ev);
	return 0;
}

TRAPLINE_API int trapline_event_rearm(struct trapline_event *ev, uint64_t more)
{
	int err = event_call(ev);

	if (err)
		return err;
	err = rearm(ev, more);
	event_leave(ev);
	return err;
}

TRAPLINE_API int trapline_event_stop_next(struct trapline_event *ev, uint64_t n)
{
	int err = event_call(ev);

	if (err)
		return err;
	if (!ev->stop_signal || !ev->control || n > INT64_MAX)
		err = failed(-EINVAL, FAILED_ARGUMENT,
			     "the event has no signal of TRAPLINE_STOP, or n is over INT64_MAX");
	else
		atomic_set(&ev->control->stops_left, (int64_t)n);
	event_leave(ev);
	return err;
}

static int add_process(struct trapline_event *ev, pid_t pid)
{
	if (!event_has_members(ev))
		return failed(-EINVAL, FAILED_ARGUMENT,
			      "the event is not one of several processes: TRAPLINE_SEVERAL");
	if (pid <= 0 || sys2(SYS_kill, pid, 0) == -ESRCH)
		return failed(-ESRCH, FAILED_TARGET, NULL);
	int err = uprobe_members_add(ev, pid);
	return err ? failed(err, FAILED_EVENT, "the table of processes is full") : 0;
}

TRAPLINE_API int trapline_event_add(struct trapline_event *ev, pid_t pid)
{
	int err = event_call(ev);

	if (err)
		return err;
	err = add_process(ev, pid);
	event_leave(ev);
	return err;
}

static int move(struct trapline_event *ev, uint64_t addr, uint32_t len)
{
	int err = event_call(ev);

	if (err)
		return err;
	err = event_move(ev, addr, len);
	event_leave(ev);
	return err ? failed(err, FAILED_ARGUMENT, "the event cannot be at that address or length") :
		     0;
}

TRAPLINE_API int trapline_event_move(struct trapline_event *ev, uint64_t addr)
{
	return move(ev, addr, 0);
}

TRAPLINE_API int trapline_event_aim(struct trapline_event *ev, uint64_t addr, size_t len)
{
	if (!len || len > 8)
		return failed(-EINVAL, FAILED_ARGUMENT, "len is not 1, 2, 4 or 8");
	return move(ev, addr, (uint32_t)len);
}

TRAPLINE_API int trapline_event_read(struct trapline_event *ev, uint64_t *out)
{
	return event_read(ev, out);
}

TRAPLINE_API enum trapline_mechanism trapline_event_mechanism(const struct trapline_event *ev)
{
	return (enum trapline_mechanism)ev->mechanism;
}

TRAPLINE_API void trapline_event_close(struct trapline_event *ev)
{
	if (ev)
		event_close(ev);
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

TRAPLINE_API int trapline_hit_vector(const struct trapline_hit *hit, unsigned int number,
				     uint64_t out[2])
{
	if (hit->context)
		return arch_vector(hit->context, number, out);
	const unsigned int most = RECORD_VECTORS; /* 0 on arm64 */

	if (number >= most)
		return -EINVAL;
	if (number >= hit->vector_count)
		return -ENODATA;
	memcpy(out, (const char *)hit->vectors + (size_t)number * RECORD_VECTOR_BYTES,
	       RECORD_VECTOR_BYTES);
	return 0;
}

TRAPLINE_API int trapline_hit_text(const struct trapline_hit *hit, unsigned int number,
				   const char **out)
{
	if (number >= RECORD_REGS)
		return -EINVAL;
	if (!(hit->texts >> number & 1))
		return -ENODATA;

	/* Without an event those that were read lie one behind the other. */
	uint32_t asked = hit->event ? hit->event->texts : (uint32_t)hit->texts;
	uint32_t before = asked & ((1u << number) - 1);

	*out = hit->text + (size_t)__builtin_popcount(before) * RECORD_TEXT_BYTES;
	return 0;
}

static int in_stack(const struct trapline_hit *hit, uint64_t address, const void **out, size_t *n)
{
	const uint64_t copied = (uint64_t)hit->stack_bytes_len + hit->stack_below;
	const uint64_t offset = address - hit->sp + hit->stack_below;

	if (!hit->stack_bytes || offset >= copied)
		return -ENODATA;
	*out = (const char *)hit->stack_bytes - hit->stack_below + offset;
	*n = (size_t)(copied - offset);
	return 0;
}

TRAPLINE_API int trapline_hit_memory(const struct trapline_hit *hit, uint64_t address,
				     const void **out, size_t *n)
{
	const char *at = hit->memory;
	const char *end = at ? at + hit->memory_len : NULL;
	const char *text;
	size_t most = 0;

	/* A member and the struct that begins with it are copies of one address. */
	while (at < end) {
		const struct record_memory *m = (const struct record_memory *)(const void *)at;
		const uint64_t offset = address - m->address;

		if (m->len > 0 && offset < (uint64_t)m->len && (size_t)m->len - offset > most) {
			*out = (const char *)(m + 1) + offset;
			*n = most = (size_t)m->len - (size_t)offset;
		}
		at = (const char *)(m + 1) + m->room;
	}
	if (most)
		return 0;
	for (uint32_t i = 0; hit->regs && hit->texts && i < RECORD_REGS; i++)
		if (hit->regs[i] == address && !trapline_hit_text(hit, i, &text)) {
			*out = text;
			*n = strnlen(text, RECORD_TEXT_BYTES - 1);
			*n += *n < RECORD_TEXT_BYTES - 1; /* its NUL, if it was not cut */
			return 0;
		}
	return in_stack(hit, address, out, n);
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
