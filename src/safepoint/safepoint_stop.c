/* SPDX-License-Identifier: MIT */
/*
 * safepoint_stop.c - stopping, visiting and resuming threads: the other side of safepoint_domain.h.
 */
#include "safepoint/safepoint_stop.h"

#include <errno.h>
#include <string.h>

#include "code/poke/poke_trap.h"
#include "core/explain.h"
#include "safepoint/safepoint_backend.h"
#include "safepoint/safepoint_late.h"
#include "safepoint/safepoint_threads.h"
#include "safepoint/safepoint_wait.h"

#define NS_PER_MS 1000000u
#define SPINS 200
#define SLICE_NS 20000000u /* so often it is looked whether a thread has ended without a word */
#define SETTLE_NS 20000

static void open_gate(struct trapline_safepoint *domain)
{
	atomic_add(&domain->gate, 1u);
	futex_wake(&domain->gate, INT32_MAX);
}

/* ---- turn ---- */

static int refuse_nested(const struct trapline_safepoint *domain)
{
	if (lock_owner(&domain->turn) == safepoint_tid())
		return failed(
			-EDEADLK, FAILED_CODE,
			"this thread made a stop that lasts: call trapline_safepoint_resume()");
	if (safepoint_self.inside || poke_is_in_callback())
		return failed(-EDEADLK, FAILED_CODE,
			      "the call comes from a handshake, a callback, or a signal handler "
			      "that interrupted the library; stop from the thread itself");
	return 0;
}

/* While another one has its turn, the caller counts as stopped. */
static int wait_for_turn(struct trapline_safepoint *domain, struct safepoint_caller *caller)
{
	pid_t tid = safepoint_tid();
	struct safepoint_thread *thread = caller->thread;
	int is_native = thread && atomic_get(thread->state) == SAFEPOINT_NATIVE;

	if (lock_try(&domain->turn, tid))
		return 0;
	if (thread && !is_native) {
		atomic_set(&thread->at, &caller->at);
		safepoint_rest(thread, SAFEPOINT_NATIVE);
	}
	int err = lock_take(&domain->turn, tid, caller->deadline_ns);
	caller->start_ns = clock_now_ns();
	if (thread && !is_native) {
		/* No other thread can have closed the gate, if it is this thread's turn. */
		if (err)
			safepoint_wait(thread, SAFEPOINT_NATIVE, &caller->at);
		else
			atomic_set(thread->state, SAFEPOINT_RUNNING);
	}
	return err ? failed(err, FAILED_CODE, "another thread's stop has lasted too long") : 0;
}

int stop_begin(struct trapline_safepoint *domain, struct safepoint_caller *caller, int timeout_ms,
	       const struct safepoint_frame *frame)
{
	struct safepoint_thread *self = safepoint_self.thread;
	int err = refuse_nested(domain);

	if (err)
		return err;
	caller->thread = self && self->domain == domain ? self : NULL;
	caller->timeout_ms = timeout_ms;
	caller->start_ns = clock_now_ns();
	caller->deadline_ns = NO_DEADLINE;
	if (timeout_ms >= 0)
		caller->deadline_ns = caller->start_ns + (uint64_t)timeout_ms * NS_PER_MS;
	safepoint_take_frame(&caller->at, frame);
	safepoint_self.inside++;
	err = wait_for_turn(domain, caller);
	safepoint_self.inside--;
	if (err || !caller->thread)
		return err;
	domain->state_before = atomic_swap(self->state, SAFEPOINT_STOPPING);
	if (domain->state_before == SAFEPOINT_RUNNING)
		atomic_set(&self->at, &caller->at);
	return 0;
}

void stop_end(struct trapline_safepoint *domain)
{
	struct safepoint_thread *self = safepoint_self.thread;

	threads_sweep(domain);
	if (self && self->domain == domain)
		atomic_set(self->state, domain->state_before);
	lock_give(&domain->turn);
}

/* ---- waiting for threads ---- */

int stop_ask(struct trapline_safepoint *domain, struct safepoint_thread *thread)
{
	uint32_t running = SAFEPOINT_RUNNING;

	if (!atomic_cas(thread->state, &running, SAFEPOINT_ASKED))
		return 0;
	backend_want(domain, thread);
	return 1;
}

/* Threads that ended, and signals that could not be sent. */
static void look_after(struct trapline_safepoint *domain)
{
	lock_take(&domain->list, safepoint_tid(), NO_DEADLINE);
	for (struct safepoint_thread *t = domain->threads; t; t = t->next) {
		uint32_t asked = SAFEPOINT_ASKED;

		if (atomic_get(t->state) != SAFEPOINT_ASKED)
			continue;
		if (sys_tgkill(sys_getpid(), t->tid, 0) != -ESRCH)
			backend_remind(domain, t);
		else if (atomic_cas(t->state, &asked, SAFEPOINT_GONE))
			safepoint_count(domain, -1, t->tid);
	}
	lock_give(&domain->list);
}

/* The lower half, which the futex is about. */
static uint32_t count_missing(const struct trapline_safepoint *domain)
{
	return (uint32_t)atomic_get(&domain->arrivals);
}

static int sleep_until_come(struct trapline_safepoint *domain, uint64_t deadline_ns)
{
	uint32_t missing;

	atomic_set(&domain->is_sleeping, 1);
	while ((missing = count_missing(domain))) {
		uint64_t slice = clock_now_ns() + SLICE_NS;

		if (slice > deadline_ns + SLICE_NS)
			break;
		futex_wait_until(&domain->arrivals, missing,
				 slice < deadline_ns ? slice : deadline_ns);
		if (clock_now_ns() >= slice)
			look_after(domain);
	}
	atomic_set(&domain->is_sleeping, 0);
	return missing ? -ETIMEDOUT : 0;
}

static int wait_until_come(struct trapline_safepoint *domain, uint64_t deadline_ns)
{
	for (int i = 0; i < SPINS; i++) {
		if (!count_missing(domain))
			return 0;
		__builtin_ia32_pause();
	}
	return sleep_until_come(domain, deadline_ns);
}

/* Those that come just now still subtract themselves. */
static void ask_no_more(struct trapline_safepoint *domain)
{
	const struct timespec nap = { .tv_nsec = SETTLE_NS };
	int taken_back = 0;

	lock_take(&domain->list, safepoint_tid(), NO_DEADLINE);
	for (struct safepoint_thread *t = domain->threads; t; t = t->next) {
		uint32_t asked = SAFEPOINT_ASKED;

		taken_back += atomic_cas(t->state, &asked, SAFEPOINT_RUNNING);
	}
	lock_give(&domain->list);
	safepoint_count(domain, -taken_back, 0);
	while (count_missing(domain))
		sys_nap(&nap);
}

int stop_wait(struct trapline_safepoint *domain, const struct safepoint_caller *caller, int asked)
{
	int err = 0;

	if (!asked)
		return 0;
	safepoint_count(domain, asked, 0);
	err = backend_arm(domain);
	if (!err)
		err = wait_until_come(domain, caller->deadline_ns);
	if (err == -ETIMEDOUT) {
		domain->stats.timeouts++;
		late_note(domain, caller->timeout_ms);
	}
	if (err)
		ask_no_more(domain);
	return err;
}

/* ---- stop, visit, resume ---- */

static int ask_all(struct trapline_safepoint *domain)
{
	int asked = 0;

	lock_take(&domain->list, safepoint_tid(), NO_DEADLINE);
	for (struct safepoint_thread *t = domain->threads; t; t = t->next)
		asked += stop_ask(domain, t);
	lock_give(&domain->list);
	return asked;
}

static void count(struct trapline_safepoint *domain, uint64_t ns)
{
	struct trapline_safepoint_stats *stats = &domain->stats;
	unsigned int n = 63u - (unsigned int)__builtin_clzll(ns | 1);

	counter_add(&stats->stops, 1);
	counter_add(&stats->total_ns, ns);
	counter_add(&stats->times[n < TRAPLINE_SAFEPOINT_TIMES ? n : TRAPLINE_SAFEPOINT_TIMES - 1],
		    1);
	if (ns > stats->longest_ns)
		atomic_set(&stats->longest_ns, ns);
}

/* Not before the stop has returned: it would be a part of its time. */
void stop_note_last(struct trapline_safepoint *domain)
{
	pid_t tid = (pid_t)(atomic_get(&domain->arrivals) >> 32);
	struct safepoint_thread *t = domain->threads;

	while (tid && t && t->tid != tid)
		t = t->next;
	if (!tid || !t)
		return;
	domain->stats.last_tid = tid;
	memcpy(domain->stats.last_name, t->name, sizeof(t->name));
}

static uint32_t place_of(const struct safepoint_thread *thread)
{
	switch (*thread->state) {
	case SAFEPOINT_STOPPED:
		return TRAPLINE_SAFEPOINT_AT_SITE;
	case SAFEPOINT_STOPPING:
		return TRAPLINE_SAFEPOINT_STOPPING;
	default:
		return TRAPLINE_SAFEPOINT_IN_NATIVE;
	}
}

static void visit_all(struct trapline_safepoint *domain, trapline_safepoint_visitor visitor,
		      void *arg)
{
	lock_take(&domain->list, safepoint_tid(), NO_DEADLINE);
	for (struct safepoint_thread *t = domain->threads; t; t = t->next) {
		if (atomic_get(t->state) == SAFEPOINT_GONE)
			continue;
		const struct trapline_safepoint_thread thread = {
			.size = sizeof(thread),
			.tid = t->tid,
			.place = place_of(t),
			.user = t->user,
			.sp = t->at->sp,
			.stack_start = t->stack_start,
			.stack_end = t->stack_end,
			.regs_known = t->at->known,
			.regs = t->at->regs,
			.context = t->at->context,
		};
		visitor(&thread, arg);
	}
	lock_give(&domain->list);
}

static void let_go(struct trapline_safepoint *domain)
{
	backend_disarm(domain);
	lock_take(&domain->list, safepoint_tid(), NO_DEADLINE);
	stop_note_last(domain);
	lock_give(&domain->list);
	open_gate(domain);
	stop_end(domain);
}

int safepoint_stop(struct trapline_safepoint *domain, int timeout_ms,
		   trapline_safepoint_visitor visitor, void *arg,
		   const struct safepoint_frame *frame)
{
	struct safepoint_caller caller;

	failed_forget();
	if (!domain)
		return failed(-EINVAL, FAILED_ARGUMENT, "domain is NULL");
	int err = stop_begin(domain, &caller, timeout_ms, frame);
	if (err)
		return err;
	safepoint_self.inside++;
	atomic_set(&domain->arrivals, 0);
	atomic_add(&domain->gate, 1u);
	int asked = ask_all(domain);
	err = stop_wait(domain, &caller, asked);
	if (err) {
		let_go(domain);
	} else {
		count(domain, clock_now_ns() - caller.start_ns);
		if (visitor)
			visit_all(domain, visitor, arg);
	}
	safepoint_self.inside--;
	return err;
}

TRAPLINE_API int trapline_safepoint_resume(struct trapline_safepoint *domain)
{
	if (!domain)
		return failed(-EINVAL, FAILED_ARGUMENT, "domain is NULL");
	if (lock_owner(&domain->turn) != safepoint_tid() || safepoint_self.inside)
		return failed(-EPERM, FAILED_CODE, "the calling thread has made no stop");
	safepoint_self.inside++;
	let_go(domain);
	safepoint_self.inside--;
	return 0;
}
