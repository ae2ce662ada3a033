/* SPDX-License-Identifier: MIT */
/*
 * safepoint_threads.c - which threads and domains there are, and what becomes of them in fork().
 *
 * A thread that ends is removed by the destructor of a pthread key. One that ended by the system
 * call alone is found by the thread that waits for it: see safepoint_stop.c.
 */
#include "safepoint/safepoint_threads.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "core/explain.h"
#include "safepoint/safepoint_backend.h"
#include "safepoint/safepoint_wait.h"

static pthread_key_t key;
static int key_error;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct safepoint_lock domains_lock;
static struct trapline_safepoint *domains;

static void unlink_thread(struct safepoint_thread *thread)
{
	struct safepoint_thread **at = &thread->domain->threads;

	while (*at != thread)
		at = &(*at)->next;
	*at = thread->next;
}

/* ---- fork ---- */

static void threads_before_fork(void)
{
	lock_take(&domains_lock, safepoint_tid(), NO_DEADLINE);
	for (struct trapline_safepoint *d = domains; d; d = d->next)
		lock_take(&d->list, safepoint_tid(), NO_DEADLINE);
}

static void threads_after_fork_in_parent(void)
{
	for (struct trapline_safepoint *d = domains; d; d = d->next)
		lock_give(&d->list);
	lock_give(&domains_lock);
}

/* Only this thread is left, and it is not stopped: it forked. */
static void keep_self(struct trapline_safepoint *domain)
{
	struct safepoint_thread *self = safepoint_self.thread;
	struct safepoint_thread *next;

	for (struct safepoint_thread *t = domain->threads; t; t = next) {
		next = t->next;
		if (t != self)
			free(t);
	}
	domain->threads = NULL;
	if (!self || self->domain != domain)
		return;
	if (*self->state == SAFEPOINT_STOPPING)
		*self->state = domain->state_before;
	else if (*self->state == SAFEPOINT_ASKED)
		*self->state = SAFEPOINT_RUNNING;
	self->next = NULL;
	self->held = 0;
	self->claim = CLAIM_NONE;
	self->tid = safepoint_tid();
	domain->threads = self;
}

static void threads_after_fork_in_child(void)
{
	safepoint_self.tid = 0;
	for (struct trapline_safepoint *d = domains; d; d = d->next) {
		keep_self(d);
		d->gate &= ~1u;
		d->arrivals = 0;
		d->is_sleeping = 0;
		d->turn.word = 0;
		d->list.word = 0;
		backend_after_fork_in_child(d);
	}
	domains_lock.word = 0;
}

/* ---- start ---- */

/*
 * In the middle of a handshake's function, or of a stop that it made: others must not wait for it.
 */
static void on_thread_end(void *arg)
{
	struct safepoint_thread *thread = safepoint_self.thread;

	if (!thread || thread != arg)
		return;
	safepoint_self.inside = 0;
	if (thread->is_in_function)
		safepoint_end_function(thread);
	if (lock_owner(&thread->domain->turn) == safepoint_tid())
		trapline_safepoint_resume(thread->domain);
	threads_unregister();
}

static void start(void)
{
	key_error = pthread_key_create(&key, on_thread_end);
	if (!key_error)
		key_error = pthread_atfork(threads_before_fork, threads_after_fork_in_parent,
					   threads_after_fork_in_child);
}

int threads_start(void)
{
	pthread_once(&once, start);
	return key_error ? failed(-ENOMEM, FAILED_ARGUMENT, "no thread-specific key is left") : 0;
}

/* ---- domains ---- */

void threads_add_domain(struct trapline_safepoint *domain)
{
	lock_take(&domains_lock, safepoint_tid(), NO_DEADLINE);
	domain->next = domains;
	domains = domain;
	lock_give(&domains_lock);
}

int threads_remove_domain(struct trapline_safepoint *domain)
{
	struct trapline_safepoint **at = &domains;

	if (!lock_try(&domain->turn, safepoint_tid()))
		return -EBUSY;
	threads_sweep(domain);
	if (domain->threads) {
		lock_give(&domain->turn);
		return -EBUSY;
	}
	lock_take(&domains_lock, safepoint_tid(), NO_DEADLINE);
	while (*at != domain)
		at = &(*at)->next;
	*at = domain->next;
	lock_give(&domains_lock);
	return 0;
}

int threads_have_signal(int signal)
{
	int found = 0;

	lock_take(&domains_lock, safepoint_tid(), NO_DEADLINE);
	for (struct trapline_safepoint *d = domains; d && !found; d = d->next)
		found = d->backend == TRAPLINE_SAFEPOINT_BY_SIGNAL && d->signal == signal;
	lock_give(&domains_lock);
	return found;
}

/* ---- threads ---- */

static int find_stack(struct safepoint_thread *thread)
{
	pthread_attr_t attr;
	size_t bytes;
	void *start;

	if (pthread_getattr_np(pthread_self(), &attr))
		return -ENOMEM;
	pthread_attr_getstack(&attr, &start, &bytes);
	pthread_attr_destroy(&attr);
	thread->stack_start = (uintptr_t)start;
	thread->stack_end = (uintptr_t)start + bytes;
	return 0;
}

static struct safepoint_thread *make_thread(struct trapline_safepoint *domain, void *user)
{
	struct safepoint_thread *thread = calloc(1, sizeof(*thread));

	if (!thread)
		return NULL;
	if (find_stack(thread) || pthread_setspecific(key, thread)) {
		free(thread);
		return NULL;
	}
	prctl(PR_GET_NAME, thread->name);
	thread->domain = domain;
	thread->state = domain->backend == TRAPLINE_SAFEPOINT_BY_POLL ? &trapline_safepoint_wanted :
									&thread->own_state;
	*thread->state = SAFEPOINT_NATIVE;
	thread->native.sp = (uintptr_t)__builtin_frame_address(0);
	thread->at = &thread->native;
	thread->tid = safepoint_tid();
	thread->user = user;
	return thread;
}

/* A thread is created native, so a stop that lasts needs to know nothing of it. */
int threads_register(struct trapline_safepoint *domain, void *user)
{
	if (safepoint_self.thread)
		return failed(-EBUSY, FAILED_ARGUMENT, "the thread is registered already");
	struct safepoint_thread *thread = make_thread(domain, user);
	if (!thread)
		return failed(-ENOMEM, FAILED_ARGUMENT, NULL);
	lock_take(&domain->list, safepoint_tid(), NO_DEADLINE);
	thread->next = domain->threads;
	domain->threads = thread;
	lock_give(&domain->list);
	safepoint_self.inside++;
	safepoint_self.thread = thread;
	safepoint_wait(thread, SAFEPOINT_NATIVE, &thread->native);
	safepoint_self.inside--;
	return 0;
}

int threads_unregister(void)
{
	struct safepoint_thread *thread = safepoint_self.thread;
	struct trapline_safepoint *domain;

	if (!thread)
		return -EPERM;
	domain = thread->domain;
	if (lock_owner(&domain->turn) == safepoint_tid())
		return failed(
			-EDEADLK, FAILED_CODE,
			"this thread made a stop that lasts: call trapline_safepoint_resume()");
	for (;;) {
		safepoint_wait(thread, SAFEPOINT_NATIVE, thread->at ? thread->at : &thread->native);
		safepoint_rest(thread, SAFEPOINT_NATIVE);
		lock_take(&domain->list, safepoint_tid(), NO_DEADLINE);
		if (!safepoint_is_closed(thread))
			break;
		lock_give(&domain->list);
	}
	unlink_thread(thread);
	safepoint_self.thread = NULL;
	lock_give(&domain->list);
	trapline_safepoint_wanted = 0;
	pthread_setspecific(key, NULL);
	free(thread);
	return 0;
}

void threads_sweep(struct trapline_safepoint *domain)
{
	struct safepoint_thread *gone = NULL;
	struct safepoint_thread **at = &domain->threads;

	lock_take(&domain->list, safepoint_tid(), NO_DEADLINE);
	while (*at) {
		struct safepoint_thread *thread = *at;

		if (atomic_get(thread->state) != SAFEPOINT_GONE) {
			at = &thread->next;
			continue;
		}
		*at = thread->next;
		thread->next = gone;
		gone = thread;
	}
	lock_give(&domain->list);
	while (gone) {
		struct safepoint_thread *next = gone->next;

		free(gone);
		gone = next;
	}
}
