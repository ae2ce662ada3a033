/* SPDX-License-Identifier: MIT */
/* stats.c - where every hit of an event went. */
#include <errno.h>
#include <string.h>

#include "base/atomic.h"
#include "base/ebpf.h"
#include "base/sys.h"
#include "code/poke/traps.h"
#include "core/explain.h"
#include "core/target.h"
#include "event/control.h"
#include "event/table.h"
#include "trap/dispatch.h"

static uint64_t rest(uint64_t whole, uint64_t parts)
{
	return whole > parts ? whole - parts : 0;
}

/*
 * A thread with two events (found and inherited) gets one signal for each access, since SIGTRAP
 * does not queue: the kernel's count is two, Trapline's is one. Such threads are among those found
 * in a later round, so what is missing is a duplicate up to their count, and merged beyond it.
 */
static void handler_stats(struct trapline_event *ev, struct trapline_stats *s)
{
	uint64_t later = 0;
	uint64_t known = s->delivered + s->rejected_limit + s->rejected_condition +
			 s->rejected_skip + s->lost_nested + s->lost_late;

	if (!event_is_breakpoint(ev) || event_is_in_code(ev)) {
		s->taken = known;
		return;
	}
	uint64_t missing = rest(s->taken, known);
	if (ev->filter_fd >= 0) {
		/* It does not report what it rejected; a merged signal would be among these. */
		s->rejected_condition = missing;
		return;
	}
	if (missing)
		event_read_count(ev, 1, &later);
	s->rejected_duplicate = missing < later ? missing : later;
	s->lost_merged = missing - s->rejected_duplicate;
}

/*
 * A thread that was cloned between the opening of its parent's event and the attaching of the
 * program has inherited an event without one. It was found in a later round and got one with it.
 * Each of its accesses is counted by both, so what no program saw is a duplicate up to the count of
 * the later rounds, and lost beyond it.
 */
static void move_to_duplicates(struct trapline_event *ev, struct trapline_stats *s)
{
	uint64_t later = 0;

	event_read_count(ev, 1, &later);
	uint64_t duplicates = s->lost_kernel < later ? s->lost_kernel : later;
	s->rejected_duplicate += duplicates;
	s->lost_kernel -= duplicates;
}

/* Its stores are not hits, but a change by one is a change that no hit reports. */
static void leave_out_kernel(const struct event_control *control, struct trapline_stats *s)
{
	s->taken = rest(s->taken, atomic_get(&control->by_kernel) + s->rejected_partial);
	s->rejected_partial = 0;
	s->unseen_changes += atomic_get(&control->changed_by_kernel);
}

/* What the program in the kernel decided; returns what it let pass. */
static uint64_t evaluated_stats(struct trapline_event *ev, struct trapline_stats *s)
{
	const struct event_control *control = ev->control;
	uint64_t seen = atomic_get(&control->seen);

	s->rejected_limit = atomic_get(&control->rejected_limit);
	s->rejected_duplicate = atomic_get(&control->rejected_duplicate);
	s->rejected_condition = atomic_get(&control->rejected_condition);
	s->condition_faults = atomic_get(&control->condition_faults);
	s->rejected_skip = atomic_get(&control->rejected_skip);
	s->rejected_partial = atomic_get(&control->rejected_partial);
	s->lost_late += atomic_get(&control->lost_late);
	s->stops_failed = atomic_get(&control->stops_failed);
	s->hits = atomic_get(&control->hits);
	s->followed = atomic_get(&control->followed);
	s->not_followed = atomic_get(&control->not_followed);
	s->while_off = atomic_get(&control->while_off);
	s->compat = atomic_get(&control->compat);
	if (!event_is_breakpoint(ev))
		s->taken = seen;
	s->lost_kernel = rest(s->taken, seen);
	if (!(ev->flags & TRAPLINE_KERNEL))
		leave_out_kernel(control, s);
	if (s->lost_kernel && event_is_breakpoint(ev))
		move_to_duplicates(ev, s);
	return atomic_get(&control->granted);
}

static void signal_stats(struct trapline_event *ev, struct trapline_stats *s)
{
	if (!ev->control) {
		handler_stats(ev, s);
		return;
	}
	uint64_t passed = evaluated_stats(ev, s);

	/* Late ones of the handler were passed, those of the program not. */
	s->lost_merged = rest(passed, s->delivered + s->lost_nested + atomic_get(&ev->lost_late));
}

static void program_stats(struct trapline_event *ev, struct trapline_stats *s)
{
	uint64_t passed = evaluated_stats(ev, s);

	s->lost_ring_full = atomic_get(&ev->control->lost_full);
	if (ev->flags & TRAPLINE_QUIET)
		s->delivered = passed;
	s->unread = rest(passed, s->delivered);
}

static uint64_t missed_by(const struct trapline_event *ev)
{
	uint64_t missed = 0;

	for (int i = 0; i < EVENT_LINK_KINDS; i++)
		missed += ebpf_missed(ev->links.programs[i]);
	for (int i = 0; i < EVENT_TRACEPOINTS; i++)
		missed += ebpf_missed(ev->tracepoints.programs[i]);
	return missed;
}

static void shared_stats(struct trapline_event *ev, struct trapline_stats *s)
{
	uint64_t missed = missed_by(ev);

	program_stats(ev, s);
	s->registers = 0;
	s->taken += missed;
	s->lost_kernel += missed;
}

static void ring_stats(struct trapline_event *ev, struct trapline_stats *s)
{
	uint64_t known = s->delivered + s->rejected_limit + s->rejected_duplicate +
			 s->rejected_condition + s->rejected_skip + s->lost_ring_full;

	if (!event_is_breakpoint(ev))
		s->taken = known;
	/* A lost record may have been the notice of a thread's creation or end: not a hit. */
	s->lost_ring_full = rest(s->lost_ring_full, rest(known, s->taken));
	if (ev->filter_fd >= 0 && perf_rings_empty(&ev->target->perf)) {
		s->rejected_condition = rest(s->taken, known);
		return;
	}
	/* The kernel reports lost samples with the next one that finds room. */
	if (perf_rings_empty(&ev->target->perf))
		s->lost_ring_full += rest(s->taken, known);
	else
		s->unread = rest(s->taken, known);
}

/* A trap inside a callback reaches no event. */
static void in_code_stats(struct trapline_event *ev, struct trapline_stats *s)
{
	uint64_t nested = 0;
	uint64_t waiting = 0;
	uint64_t hits;

	if (ev->traps && !traps_hits(ev->traps, 0, &nested, &hits))
		s->lost_nested += nested;
	if (ev->records) {
		s->unread = rest(atomic_get(&ev->recorded), s->delivered);
		waiting = s->lost_ring_full + s->unread;
	}
	handler_stats(ev, s);
	s->taken += waiting;
}

/* By the handler or the reader. A hit counts as rejected until the condition has let it pass. */
static uint64_t rejected_outside_kernel(const struct trapline_event *ev)
{
	uint64_t hits = atomic_get(&ev->hits);

	return ev->condition ? rest(hits, atomic_get(&ev->passed_condition)) : 0;
}

static int read_stats(struct trapline_event *ev, struct trapline_stats *out)
{
	struct trapline_stats s = {
		.size = sizeof(s),
		.delivered = atomic_get(&ev->delivered),
		.hits = atomic_get(&ev->hits),
		.rejected_condition = rejected_outside_kernel(ev),
		.condition_faults = atomic_get(&ev->condition_faults),
		.evaluated_in = ev->evaluated_in,
		.rejected_skip = atomic_get(&ev->rejected_skip),
		.rejected_limit = atomic_get(&ev->rejected_limit),
		.rejected_duplicate = atomic_get(&ev->rejected_duplicate),
		.lost_nested = atomic_get(&ev->lost_nested),
		.lost_late = atomic_get(&ev->lost_late),
		.lost_ring_full = atomic_get(&ev->lost_ring_full),
		.threads = ev->roots.threads,
		.registers = event_is_breakpoint(ev) && !event_is_in_code(ev) ? ev->part_count : 0,
		.async = atomic_get(&ev->async),
		.move_repairs = atomic_get(&ev->move_repairs),
		.rseq_stops = atomic_get(&ev->rseq_stops),
		.unseen_changes = atomic_get(&ev->unseen_changes),
		.changes_unsure = atomic_get(&ev->changes_unsure),
		.values_replaced = atomic_get(&ev->values_replaced),
		.lost_causes = atomic_get(&trap_lost_causes) - ev->lost_causes_before,
	};
	int err = event_read_count(ev, 0, &s.taken);

	if (err)
		return err;
	if (event_is_in_code(ev))
		in_code_stats(ev, &s);
	else if (ev->mechanism == TRAPLINE_BY_SIGNAL)
		signal_stats(ev, &s);
	else if (ev->mechanism == TRAPLINE_BY_BPF)
		program_stats(ev, &s);
	else if (event_is_shared(ev))
		shared_stats(ev, &s);
	else
		ring_stats(ev, &s);
	*out = s;
	return 0;
}

TRAPLINE_API int trapline_event_stats(struct trapline_event *ev, struct trapline_stats *out)
{
	struct trapline_stats s;
	size_t size = out->size;

	if (size < sizeof(size_t) || size > sizeof(s))
		return failed(-EINVAL, FAILED_ARGUMENT, "out->size is not set");
	if (ev->owner_pid != sys_getpid() || event_enter(ev))
		return failed(-ESRCH, FAILED_EVENT,
			      "the event is closed, or the call comes from a forked child");
	int err = read_stats(ev, &s);
	event_leave(ev);
	if (err)
		return err;
	s.size = size;
	memcpy(out, &s, size);
	return 0;
}
