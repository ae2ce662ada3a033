/* SPDX-License-Identifier: MIT */
/*
 * safepoint_backend.c - what makes threads reach their safepoint: a word, code, a watch, a signal.
 */
#include "safepoint/safepoint_backend.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "core/create.h"
#include "core/explain.h"
#include "safepoint/safepoint_sites.h"
#include "safepoint/safepoint_threads.h"
#include "safepoint/safepoint_trap.h"
#include "safepoint/safepoint_wait.h"

/* ---- signal ---- */

static void on_signal(int signal, siginfo_t *info, void *context)
{
	safepoint_arrive_by(context);
}

static int open_signal(struct trapline_safepoint *domain)
{
	struct sigaction before;
	struct sigaction action = {
		.sa_sigaction = on_signal,
		.sa_flags = SA_SIGINFO | SA_RESTART,
	};

	if (domain->signal < SIGRTMIN || domain->signal > SIGRTMAX)
		return failed(-EINVAL, FAILED_ARGUMENT,
			      "the signal is not a real-time signal: choose one from SIGRTMIN to "
			      "SIGRTMAX");
	sigemptyset(&action.sa_mask);
	sigaction(domain->signal, NULL, &before);
	if (before.sa_handler != SIG_DFL || threads_have_signal(domain->signal))
		return failed(-EBUSY, FAILED_CODE,
			      "the program handles or ignores the signal; choose another one");
	sigaction(domain->signal, &action, NULL);
	return 0;
}

/* Ignored for a moment: one that is on its way would end the process. */
static void close_signal(const struct trapline_safepoint *domain)
{
	signal(domain->signal, SIG_IGN);
	signal(domain->signal, SIG_DFL);
}

/* A full queue of signals is tried again by backend_remind(). */
static void send(const struct trapline_safepoint *domain, struct safepoint_thread *thread)
{
	thread->is_unsent = sys_tgkill(sys_getpid(), thread->tid, domain->signal) == -EAGAIN;
}

/* ---- watch ---- */

static int open_event(struct trapline_safepoint *domain)
{
	const struct wish wish = { .addr = domain->address,
				   .len = domain->length,
				   .access = TRAPLINE_READ_WRITE };
	TRAPLINE_OPTS(event, opts);

	opts.callback = safepoint_trap;
	opts.flags = TRAPLINE_DISABLED | TRAPLINE_NO_VALUES;
	int err = trapline_open(0, NULL, &domain->target);
	if (err)
		return err;
	err = event_create(domain->target, &wish, &opts, &domain->event);
	if (err) {
		trapline_close(domain->target);
		domain->target = NULL;
	}
	return err;
}

static int open_watch(struct trapline_safepoint *domain)
{
	if (!domain->address || (domain->length != 1 && domain->length != 2 &&
				 domain->length != 4 && domain->length != 8))
		return failed(-EINVAL, FAILED_ARGUMENT,
			      "the watch back end needs the address of a word of 1, 2, 4 or 8 "
			      "bytes that each loop reads");
	return open_event(domain);
}

/* ---- all ---- */

int backend_open(struct trapline_safepoint *domain)
{
	switch (domain->backend) {
	case TRAPLINE_SAFEPOINT_BY_POLL:
		return sites_open_poll();
	case TRAPLINE_SAFEPOINT_BY_POKE:
		return sites_open_poke();
	case TRAPLINE_SAFEPOINT_BY_WATCH:
		return open_watch(domain);
	default:
		return open_signal(domain);
	}
}

void backend_close(struct trapline_safepoint *domain)
{
	if (domain->backend == TRAPLINE_SAFEPOINT_BY_POKE)
		sites_close();
	if (domain->backend == TRAPLINE_SAFEPOINT_BY_SIGNAL)
		close_signal(domain);
	trapline_close(domain->target);
}

void backend_want(struct trapline_safepoint *domain, struct safepoint_thread *thread)
{
	if (domain->backend == TRAPLINE_SAFEPOINT_BY_SIGNAL)
		send(domain, thread);
}

int backend_arm(struct trapline_safepoint *domain)
{
	int err = 0;

	if (domain->backend == TRAPLINE_SAFEPOINT_BY_POKE)
		err = sites_arm(domain->flags & TRAPLINE_SAFEPOINT_INT3);
	else if (domain->backend == TRAPLINE_SAFEPOINT_BY_WATCH) {
		err = domain->event ? 0 : open_event(domain);
		err = err ? err : event_switch(domain->event, 1);
	}
	domain->is_armed = !err;
	return err;
}

void backend_remind(struct trapline_safepoint *domain, struct safepoint_thread *thread)
{
	if (thread->is_unsent)
		send(domain, thread);
}

void backend_disarm(struct trapline_safepoint *domain)
{
	if (!domain->is_armed)
		return;
	domain->is_armed = 0;
	if (domain->backend == TRAPLINE_SAFEPOINT_BY_POKE)
		sites_disarm(domain->flags & TRAPLINE_SAFEPOINT_INT3);
	else if (domain->backend == TRAPLINE_SAFEPOINT_BY_WATCH)
		event_switch(domain->event, 0);
}

/* The events of the parent are not the child's. */
void backend_after_fork_in_child(struct trapline_safepoint *domain)
{
	domain->is_armed = 0;
	domain->target = NULL;
	domain->event = NULL;
}
