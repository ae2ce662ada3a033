/* SPDX-License-Identifier: MIT */
/* safepoint_handshake.c - a function runs in one thread, or for it while it cannot move. */
#include "safepoint/safepoint_handshake.h"

#include <errno.h>

#include "core/explain.h"
#include "safepoint/safepoint_backend.h"
#include "safepoint/safepoint_stop.h"
#include "safepoint/safepoint_wait.h"

struct handshake {
	struct trapline_safepoint *domain;
	trapline_safepoint_function function;
	void *arg;
};

static struct safepoint_thread *find(struct trapline_safepoint *domain, pid_t tid)
{
	struct safepoint_thread *thread = domain->threads;

	while (thread && thread->tid != tid)
		thread = thread->next;
	return thread && atomic_get(thread->state) != SAFEPOINT_GONE ? thread : NULL;
}

/* It is kept from here on, so it stays in memory, or NULL. */
static struct safepoint_thread *hold(const struct handshake *h, pid_t tid, int *asked)
{
	lock_take(&h->domain->list, safepoint_tid(), NO_DEADLINE);
	struct safepoint_thread *thread = find(h->domain, tid);

	if (thread && thread != safepoint_self.thread) {
		thread->function = h->function;
		thread->arg = h->arg;
		atomic_set(&thread->claim, CLAIM_OPEN);
		atomic_set(&thread->held, 1);
		*asked = stop_ask(h->domain, thread);
	}
	lock_give(&h->domain->list);
	return thread;
}

static void release(struct safepoint_thread *thread)
{
	atomic_set(&thread->claim, CLAIM_NONE);
	atomic_set(&thread->held, 0);
	futex_wake(&thread->held, INT32_MAX);
}

static void wait_until_done(struct safepoint_thread *thread)
{
	uint32_t claim;

	while ((claim = atomic_get(&thread->claim)) != CLAIM_DONE)
		futex_wait_until(&thread->claim, claim, NO_DEADLINE);
}

/* The function runs once: in the thread, or here, or not at all after a failure. */
static int complete(const struct handshake *h, struct safepoint_thread *thread, int err)
{
	uint32_t open = CLAIM_OPEN;

	if (!atomic_cas(&thread->claim, &open, CLAIM_RUNNING)) {
		wait_until_done(thread);
		return 0;
	}
	if (!err && atomic_get(thread->state) == SAFEPOINT_GONE)
		err = -ESRCH;
	if (!err)
		h->function(h->arg);
	return err;
}

static int run(const struct handshake *h, const struct safepoint_caller *caller, pid_t tid)
{
	int asked = 0;
	struct safepoint_thread *thread = hold(h, tid, &asked);

	if (!thread)
		return failed(-ESRCH, FAILED_CODE, "the domain has no such thread");
	if (thread == safepoint_self.thread) {
		h->function(h->arg);
		return 0;
	}
	int err = complete(h, thread, stop_wait(h->domain, caller, asked));

	/* While all are stopped the back end stays as it is. */
	if (!(atomic_get(&h->domain->gate) & 1))
		backend_disarm(h->domain);
	release(thread);
	return err;
}

/* In the middle of the caller's own stop nothing has to be waited for. */
static int run_stopped(const struct handshake *h, pid_t tid)
{
	const struct safepoint_caller nothing = { NULL };

	safepoint_self.inside++;
	int err = run(h, &nothing, tid);
	safepoint_self.inside--;
	return err;
}

int safepoint_handshake(struct trapline_safepoint *domain, pid_t tid, int timeout_ms,
			trapline_safepoint_function function, void *arg,
			const struct safepoint_frame *frame)
{
	const struct handshake h = { domain, function, arg };
	struct safepoint_caller caller;
	int err;

	failed_forget();
	if (!domain || !function)
		return failed(-EINVAL, FAILED_ARGUMENT, "domain or function is NULL");
	if (lock_owner(&domain->turn) == safepoint_tid() && !safepoint_self.inside) {
		err = run_stopped(&h, tid);
	} else {
		err = stop_begin(domain, &caller, timeout_ms, frame);
		if (err)
			return err;
		safepoint_self.inside++;
		err = run(&h, &caller, tid);
		stop_end(domain);
		safepoint_self.inside--;
	}
	if (!err)
		counter_add(&domain->stats.handshakes, 1);
	return err;
}
