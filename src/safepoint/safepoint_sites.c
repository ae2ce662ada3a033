/* SPDX-License-Identifier: MIT */
/*
 * safepoint_sites.c - the safepoints in code: which there are, and their change to jumps and back.
 *
 * A site is `test $imm32, %eax`, or `jmp rel32` with the same four bytes behind. That one byte is
 * stored without any synchronization where the processor promises that. The thread that stops waits
 * for the threads themselves, so it does not matter when each of them sees the new byte. Where it
 * does not, changed pages replace the old ones. While a code log is on, the change is by int3.
 */
#include "safepoint/safepoint_sites.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "code/poke/poke.h"
#include "code/poke/poke_any_mask.h"
#include "code/poke/poke_byte.h"
#include "code/poke/text_mem.h"
#include "core/code_start.h"
#include "core/explain.h"
#include "safepoint/safepoint_domain.h"
#include "safepoint/safepoint_wait.h"

#define SITE_OFF 0xa9 /* test $imm32, %eax */
#define SITE_ON 0xe9  /* jmp rel32 */
#define SITE_BYTES 5

static struct safepoint_lock lock;
static uint64_t *sites; /* sorted */
static size_t count;
static size_t room;
static size_t polls; /* so many objects use the other form */
static uint32_t armed;
static int is_by_int3; /* that is how they were armed */

/* ---- writing ---- */

static int commit(const struct trapline_poke_site *changes, size_t n, int by_int3,
		  struct code_problem *problem)
{
	if (by_int3)
		return poke_commit(changes, n, 0, 0, problem);
	return poke_any_mask(changes, n, POKE_UNSYNCED, problem);
}

/* As an ordinary poke. Lock held. */
static int poke_all(const uint64_t *at, size_t n, uint8_t to, int by_int3,
		    struct code_problem *problem)
{
	struct trapline_poke_site *changes = malloc(n * sizeof(*changes));
	uint8_t(*bytes)[2][SITE_BYTES] = malloc(n * sizeof(*bytes));
	size_t used = 0;
	int err = -ENOMEM;

	for (size_t i = 0; changes && bytes && i < n; i++) {
		const uint8_t *text = (const uint8_t *)(uintptr_t)at[i];

		if (*text == to)
			continue;
		memcpy(bytes[i][0], text, SITE_BYTES);
		memcpy(bytes[i][1], text, SITE_BYTES);
		bytes[i][0][0] = to == SITE_ON ? SITE_OFF : SITE_ON;
		bytes[i][1][0] = to;
		changes[used++] =
			(struct trapline_poke_site){ at[i], bytes[i][0], bytes[i][1], SITE_BYTES };
	}
	if (changes && bytes)
		err = used ? commit(changes, used, by_int3, problem) : 0;
	free(changes);
	free(bytes);
	return err;
}

static int write_all(const uint64_t *at, size_t n, uint8_t to, int by_int3)
{
	struct code_problem problem = { NULL, 0 };
	int err = -EAGAIN;

	if (!n)
		return 0;
	if (!by_int3)
		err = poke_byte(at, n, to == SITE_ON ? SITE_OFF : SITE_ON, to, &problem);
	if (err == -EAGAIN)
		err = poke_all(at, n, to, by_int3, &problem);
	return err ? failed(err, FAILED_CODE, problem.why) : 0;
}

int sites_arm(int by_int3)
{
	int err = 0;

	lock_take(&lock, safepoint_tid(), NO_DEADLINE);
	if (!armed) {
		err = write_all(sites, count, SITE_ON, by_int3);
		if (err)
			write_all(sites, count, SITE_OFF, by_int3);
	}
	if (!err) {
		armed++;
		is_by_int3 = by_int3;
	}
	lock_give(&lock);
	return err;
}

void sites_disarm(int by_int3)
{
	lock_take(&lock, safepoint_tid(), NO_DEADLINE);
	if (!--armed)
		write_all(sites, count, SITE_OFF, by_int3);
	lock_give(&lock);
}

/* ---- which there are ---- */

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static uint64_t address_of(const struct trapline_safepoint_site *site)
{
	return (uintptr_t)&site->site + (uint64_t)(int64_t)site->site;
}

static int has(uint64_t address)
{
	return count && bsearch(&address, sites, count, sizeof(*sites), compare) != NULL;
}

/* Each source of an object brings the same rows. */
static void add(const struct trapline_safepoint_site *begin,
		const struct trapline_safepoint_site *end)
{
	size_t more = (size_t)(end - begin);
	size_t old = count;

	if (begin->site && has(address_of(begin)))
		return;
	if (old + more > room) {
		uint64_t *larger = realloc(sites, (old + more) * 2 * sizeof(*sites));

		/* Threads that execute only these sites are then late, and named. */
		if (!larger)
			return;
		sites = larger;
		room = (old + more) * 2;
	}
	size_t n = old;
	for (const struct trapline_safepoint_site *s = begin; s < end; s++) {
		polls += !s->site;
		if (s->site && !has(address_of(s)))
			sites[n++] = address_of(s);
	}
	if (armed)
		write_all(sites + old, n - old, SITE_ON, is_by_int3);
	count = n;
	if (count)
		qsort(sites, count, sizeof(*sites), compare);
}

static void drop(const struct trapline_safepoint_site *begin,
		 const struct trapline_safepoint_site *end)
{
	for (const struct trapline_safepoint_site *s = begin; s < end; s++) {
		uint64_t address = address_of(s);
		uint64_t *at = s->site && count ?
				       bsearch(&address, sites, count, sizeof(*sites), compare) :
				       NULL;

		if (!at)
			continue;
		count--;
		memmove(at, at + 1, (size_t)(sites + count - at) * sizeof(*at));
	}
}

TRAPLINE_API void trapline_safepoint_sites(const struct trapline_safepoint_site *begin,
					   const struct trapline_safepoint_site *end, int is_loaded)
{
	if (begin >= end)
		return;
	lock_take(&lock, safepoint_tid(), NO_DEADLINE);
	if (is_loaded)
		add(begin, end);
	else
		drop(begin, end);
	lock_give(&lock);
}

uint64_t sites_count(void)
{
	lock_take(&lock, safepoint_tid(), NO_DEADLINE);
	uint64_t n = count;
	lock_give(&lock);
	return n;
}

/* ---- fork, start ---- */

static void sites_before_fork(void)
{
	lock_take(&lock, safepoint_tid(), NO_DEADLINE);
}

static void sites_after_fork_in_parent(void)
{
	lock_give(&lock);
}

/* No stop lasts here. */
static void sites_after_fork_in_child(void)
{
	if (armed)
		write_all(sites, count, SITE_OFF, is_by_int3);
	armed = 0;
	lock.word = 0;
}

static void add_fork_handlers(void)
{
	pthread_atfork(sites_before_fork, sites_after_fork_in_parent, sites_after_fork_in_child);
}

int sites_open_poll(void)
{
	lock_take(&lock, safepoint_tid(), NO_DEADLINE);
	int is_wrong = count && !polls;
	lock_give(&lock);
	return is_wrong ? failed(-ENOENT, FAILED_CODE,
				 "cannot stop threads by poll: the program's safepoints are all "
				 "TRAPLINE_SAFEPOINT_POKE(); compile it without "
				 "-DTRAPLINE_SAFEPOINT_POKED, or open the domain with "
				 "TRAPLINE_SAFEPOINT_BY_POKE") :
			  0;
}

int sites_open_poke(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (!sites_count())
		return failed(-ENOENT, FAILED_CODE,
			      "cannot stop threads by poke: no loaded object has a "
			      "TRAPLINE_SAFEPOINT_POKE(); compile the loops with "
			      "-DTRAPLINE_SAFEPOINT_POKED, or open the domain with "
			      "TRAPLINE_SAFEPOINT_BY_POLL");
	int err = code_start();
	if (err)
		return err;
	/* After those of code_start(): the lock here is taken before the lock there. */
	pthread_once(&once, add_fork_handlers);
	text_mem_hold();
	return 0;
}

void sites_close(void)
{
	text_mem_drop();
}
