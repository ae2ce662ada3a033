/* SPDX-License-Identifier: MIT */
/*
 * throttle.c - see throttle.h.
 *
 * The amount drawn is always read from the kernel's account, never summed up from ticks: ticks
 * that fall into system calls are lost (28 of 200 arrive in a thread that lives there).
 */
#include "tools/throttle.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/sys.h"
#include "trap/path.h"

#define SLICE_NS 50000000u

/* An account of one thread, for TRAPLINE_THROTTLE_EACH. */
struct thread_account {
	uint32_t generation;
	uint32_t is_throttled;
	uint64_t origin;
};

static __thread struct thread_account accounts[THROTTLES_MAX]
	__attribute__((tls_model("initial-exec")));
static struct trapline_throttle throttles[THROTTLES_MAX];

struct trapline_throttle *throttle_take(void)
{
	for (uint32_t i = 0; i < THROTTLES_MAX; i++) {
		struct trapline_throttle *t = &throttles[i];
		uint32_t expected = 0;
		size_t from = offsetof(struct trapline_throttle, flags);

		if (!atomic_cas(&t->taken, &expected, 1u))
			continue;
		t->index = i;
		t->generation++;
		memset((char *)t + from, 0, sizeof(*t) - from);
		return t;
	}
	return NULL;
}

void throttle_give(struct trapline_throttle *t)
{
	atomic_set(&t->taken, 0u);
}

TRAP_PATH static uint64_t clock_ns(int clock)
{
	struct timespec now = {0};

	/* The system call: the vDSO has no CPU clocks, and libc's function may set errno. */
	sys2(SYS_clock_gettime, clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

TRAP_PATH static uint64_t page_faults(int who)
{
	struct rusage usage;

	memset(&usage, 0, sizeof(usage));
	sys2(SYS_getrusage, who, &usage);
	return (uint64_t)usage.ru_minflt + (uint64_t)usage.ru_majflt;
}

TRAP_PATH uint64_t throttle_drawn(const struct trapline_throttle *t)
{
	int each = (t->flags & TRAPLINE_THROTTLE_EACH) != 0;
	uint64_t drawn = 0;

	if (each || t->scope == TRAPLINE_PROCESS) {
		if (t->counter == TRAPLINE_TASK_CLOCK)
			return clock_ns(each ? CLOCK_THREAD_CPUTIME_ID : CLOCK_PROCESS_CPUTIME_ID);
		if (t->counter == TRAPLINE_PAGE_FAULTS)
			return page_faults(each ? RUSAGE_THREAD : RUSAGE_SELF);
	}
	event_read_count(t->event, 0, &drawn);
	return drawn;
}

TRAP_PATH static uint64_t price_of(const struct trapline_throttle *t, uint64_t drawn)
{
	return (uint64_t)((unsigned __int128)drawn * t->price >> 32);
}

TRAP_PATH static struct thread_account *account_of(const struct trapline_throttle *t)
{
	struct thread_account *account = &accounts[t->index];

	if (account->generation != t->generation) {
		account->generation = t->generation;
		account->is_throttled = 0;
		account->origin = clock_now_ns() - price_of(t, throttle_drawn(t));
	}
	return account;
}

TRAP_PATH static uint64_t *origin_of(struct trapline_throttle *t)
{
	return t->flags & TRAPLINE_THROTTLE_EACH ? &account_of(t)->origin : &t->origin;
}

TRAP_PATH static uint32_t *state_of(struct trapline_throttle *t)
{
	return t->flags & TRAPLINE_THROTTLE_EACH ? &account_of(t)->is_throttled :
						   &t->is_throttled;
}

void throttle_begin(struct trapline_throttle *t, uint64_t per_second)
{
	t->price = (uint64_t)(((unsigned __int128)1000000000u << 32) / per_second);
	t->drawn_before = throttle_drawn(t);
	t->origin = clock_now_ns() - price_of(t, t->drawn_before);
}

/* When the account will be even: CLOCK_MONOTONIC. Credit that is older than the burst lapses. */
TRAP_PATH static uint64_t due_ns(struct trapline_throttle *t, uint64_t now)
{
	uint64_t *origin = origin_of(t);
	uint64_t from = atomic_get(origin);
	uint64_t due = from + price_of(t, throttle_drawn(t));
	uint64_t oldest = now - t->burst_ns;

	if ((int64_t)(due - oldest) >= 0)
		return due;
	/* Who loses the race has read an amount that is older than the winner's. */
	atomic_cas(origin, &from, from + (oldest - due));
	return oldest;
}

TRAP_PATH uint64_t throttle_debt(struct trapline_throttle *t)
{
	uint64_t now = clock_now_ns();
	uint64_t due = due_ns(t, now);

	return (int64_t)(due - now) > 0 ? due - now : 0;
}

TRAP_PATH static void tell_even(struct trapline_throttle *t)
{
	uint32_t throttled = 1;

	if (atomic_cas(state_of(t), &throttled, 0u) && t->unthrottled)
		t->unthrottled(t->arg);
}

TRAP_PATH static void tell_debt(struct trapline_throttle *t, uint64_t debt)
{
	uint32_t even = 0;

	if (debt <= t->debt_ns || !atomic_cas(state_of(t), &even, 1u))
		return;
	counter_add(&t->throttled_count, 1);
	if (t->throttled)
		t->throttled(t->arg, debt);
}

/*
 * Others draw meanwhile, so look again. A signal for the program ends a sleep, and we go on. In
 * slices, so that the end of the budget is noticed.
 */
TRAP_PATH uint64_t throttle_pay(struct trapline_throttle *t)
{
	uint64_t start = clock_now_ns();
	uint64_t now = start;
	uint32_t generation = t->generation;

	for (;;) {
		uint64_t due = due_ns(t, now);
		struct timespec until;

		if ((int64_t)(due - now) <= 0 || !atomic_get(&t->taken) ||
		    t->generation != generation)
			break;
		due = due - now > SLICE_NS ? now + SLICE_NS : due;
		until = (struct timespec){(time_t)(due / 1000000000u), (long)(due % 1000000000u)};
		sys4(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
		now = clock_now_ns();
	}
	tell_even(t);
	if (now == start)
		return 0;
	counter_add(&t->sleeps, 1);
	counter_add(&t->slept_ns, now - start);
	return now - start;
}

TRAP_PATH void throttle_check(struct trapline_throttle *t)
{
	uint64_t debt = throttle_debt(t);

	counter_add(&t->checks, 1);
	if (!debt) {
		tell_even(t);
		return;
	}
	tell_debt(t, debt);
	if (t->flags & TRAPLINE_THROTTLE_SLEEP)
		throttle_pay(t);
}
