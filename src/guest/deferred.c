/* SPDX-License-Identifier: MIT */
/*
 * deferred.c - see deferred.h.
 *
 * A row is its writer's from FREE to FULL, and its sender's from FULL to FREE. What finds no row is merged.
 */
#include "guest/deferred.h"

#include <stdint.h>
#include <string.h>

#include "base/atomic.h"
#include "base/sent.h"
#include "base/sys.h"

#define ROWS 8u

enum {
	FREE,
	IS_WRITTEN,
	FULL
};

static struct row {
	uint32_t state;
	pid_t thread; /* 0: the process */
	siginfo_t info;
} rows[ROWS];

static pid_t thread_of(const siginfo_t *info)
{
	return info->si_code == SI_TKILL || info->si_code > 0 ? sys_gettid() : 0;
}

static struct row *find(int signal, pid_t thread)
{
	for (struct row *r = rows; r < rows + ROWS; r++)
		if (atomic_get(&r->state) == FULL && r->thread == thread &&
		    r->info.si_signo == signal)
			return r;
	return NULL;
}

void deferred_keep(const siginfo_t *info)
{
	const pid_t thread = thread_of(info);

	if (find(info->si_signo, thread))
		return;
	for (struct row *r = rows; r < rows + ROWS; r++) {
		uint32_t state = FREE;

		if (!atomic_cas(&r->state, &state, (uint32_t)IS_WRITTEN))
			continue;
		r->thread = thread;
		r->info = *info;
		atomic_set(&r->state, (uint32_t)FULL);
		return;
	}
}

/* A thread alone can send itself again what was sent to it, with all that the kernel told of it. */
static void send_one(struct row *r)
{
	uint32_t state = FULL;

	if (!atomic_cas(&r->state, &state, (uint32_t)IS_WRITTEN))
		return;
	if (r->thread && r->thread != sys_gettid())
		sys_tgkill(sys_getpid(), r->thread, r->info.si_signo);
	else
		sent_again(&r->info);
	atomic_set(&r->state, (uint32_t)FREE);
}

void deferred_send(void)
{
	for (struct row *r = rows; r < rows + ROWS; r++)
		send_one(r);
}

void deferred_send_open(int signal)
{
	struct row *own = find(signal, sys_gettid());
	struct row *shared = find(signal, 0);

	if (own)
		send_one(own);
	if (shared)
		send_one(shared);
}

/* Most often there is none: then no system call is made, which a filter of the program could forbid. */
static int has_any(void)
{
	for (struct row *r = rows; r < rows + ROWS; r++)
		if (atomic_get(&r->state) == FULL)
			return 1;
	return 0;
}

int deferred_has(int signal)
{
	return has_any() && (find(signal, sys_gettid()) || find(signal, 0));
}
