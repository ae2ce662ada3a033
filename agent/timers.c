/* SPDX-License-Identifier: MIT */
/*
 * timers.c - timers and message queues that call a function in a thread of its own.
 *
 * libc creates that thread without a call that the agent interposes, so a sweep would
 * never begin in a program without other threads. The thread has all signals blocked, and
 * an int3 there would kill the program. So SIGTRAP is unblocked before the function is
 * called.
 */
#include <dlfcn.h>
#include <mqueue.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "base/atomic.h"
#include "race/race.h"

#define EXPORTED __attribute__((visibility("default")))

/* What the program asked for: kept for ever, since it is not known when the last call was made. */
struct request {
	struct request *next;
	void (*function)(union sigval);
	union sigval value;
};

static struct request *requests;

static void call_with_trap(union sigval ours)
{
	const struct request *request = ours.sival_ptr;
	int (*mask)(int, const sigset_t *, sigset_t *) =
		(int (*)(int, const sigset_t *, sigset_t *))dlsym(RTLD_NEXT, "pthread_sigmask");
	sigset_t trap;

	sigemptyset(&trap);
	sigaddset(&trap, SIGTRAP);
	if (mask)
		mask(SIG_UNBLOCK, &trap, NULL);
	request->function(request->value);
}

static struct request *keep(const struct sigevent *event)
{
	struct request *first = atomic_get(&requests);

	for (struct request *r = first; r; r = r->next)
		if (r->function == event->sigev_notify_function &&
		    r->value.sival_ptr == event->sigev_value.sival_ptr)
			return r;
	struct request *request = malloc(sizeof(*request));
	if (!request)
		return NULL;
	request->function = event->sigev_notify_function;
	request->value = event->sigev_value;
	do
		request->next = first;
	while (!atomic_cas(&requests, &first, request));
	return request;
}

/* The event to be asked for instead; it may be NULL. */
static struct sigevent *through_us(struct sigevent *event, struct sigevent *copy)
{
	struct request *request;

	if (!event || event->sigev_notify != SIGEV_THREAD || !race_counter_of(RACE_STALLS))
		return event;
	race_sites_begin((race_create)dlsym(RTLD_NEXT, "pthread_create"));
	/* Without an end: from now on a thread may be created at any time, without a notice. */
	race_birth_begins((uintptr_t)event->sigev_notify_function);
	request = keep(event);
	if (!request)
		return event;
	*copy = *event;
	copy->sigev_notify_function = call_with_trap;
	copy->sigev_value.sival_ptr = request;
	return copy;
}

EXPORTED int timer_create(clockid_t clock, struct sigevent *event, timer_t *timer)
{
	static int (*next)(clockid_t, struct sigevent *, timer_t *);
	struct sigevent copy;

	if (!next)
		next = (int (*)(clockid_t, struct sigevent *, timer_t *))dlsym(RTLD_NEXT,
									       "timer_create");
	return next(clock, through_us(event, &copy), timer);
}

EXPORTED int mq_notify(mqd_t queue, const struct sigevent *event)
{
	static int (*next)(mqd_t, const struct sigevent *);
	struct sigevent given;
	struct sigevent copy;

	if (!next)
		next = (int (*)(mqd_t, const struct sigevent *))dlsym(RTLD_NEXT, "mq_notify");
	if (!event)
		return next(queue, NULL);
	given = *event;
	return next(queue, through_us(&given, &copy));
}
