/* SPDX-License-Identifier: MIT */
/*
 * deferred.c - see deferred.h.
 *
 * A row is its writer's from FREE to FULL, and its sender's from FULL to FREE. What finds no row is
 * merged.
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

static int is_kept(int signal, pid_t thread)
{
	for (struct row *r = rows; r < rows + ROWS; r++)
		if (atomic_get(&r->state) == FULL && r->thread == thread &&
		    r->info.si_signo == signal)
			return 1;
	return 0;
}

void deferred_keep(const siginfo_t *info)
{
	const pid_t thread = thread_of(info);

	if (is_kept(info->si_signo, thread))
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

/*
 * Only a thread can send itself again what was sent to it, with all that the kernel reported of it.
 * The signal of an event of the program's own, such as another copy of this library has, would have
 * lost its name. Its handler would take it for a SIGTRAP that ends the process. One that is lost is
 * one hit that is not seen.
 */
static void send_one(struct row *r)
{
	uint32_t state = FULL;

	if (!atomic_cas(&r->state, &state, (uint32_t)IS_WRITTEN))
		return;
	if (!r->thread || r->thread == sys_gettid())
		sent_again(&r->info);
	else if (r->info.si_code != TRAP_PERF_CODE)
		sys_tgkill(sys_getpid(), r->thread, r->info.si_signo);
	atomic_set(&r->state, (uint32_t)FREE);
}

void deferred_send(void)
{
	for (struct row *r = rows; r < rows + ROWS; r++)
		send_one(r);
}

/*
 * The thread is asked for last: a filter of the program may forbid that call, and most often no row
 * is full.
 */
static int is_for_caller(const struct row *r, int signal)
{
	return atomic_get(&r->state) == FULL && r->info.si_signo == signal &&
	       (!r->thread || r->thread == sys_gettid());
}

void deferred_send_open(int signal)
{
	for (struct row *r = rows; r < rows + ROWS; r++)
		if (is_for_caller(r, signal))
			send_one(r);
}

int deferred_has(int signal)
{
	for (struct row *r = rows; r < rows + ROWS; r++)
		if (is_for_caller(r, signal))
			return 1;
	return 0;
}
