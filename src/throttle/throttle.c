/* SPDX-License-Identifier: MIT */
/*
 * throttle.c - see throttle.h.
 *
 * The amount drawn is always read from the kernel's account, never summed up from samples. Samples
 * that fall into system calls are lost (28 of 200 arrive in a thread that lives there).
 */
#include "throttle/throttle.h"
#include "base/trap_path.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/sys.h"
#include "event/control.h"

/*
 * The account of one thread: its own (TRAPLINE_THROTTLE_EACH), or what it has added to the shared
 * one.
 */
struct thread_account {
	uint32_t generation;
	uint32_t is_throttled;
	uint64_t origin;
	uint64_t reported;
	uint64_t held; /* its location in the queue */
};

#define WAKE_MAX_NS 2000000u

static __thread struct thread_account accounts[THROTTLES_MAX]
	__attribute__((tls_model("initial-exec")));
static struct trapline_throttle throttles[THROTTLES_MAX];
static __thread int spared __attribute__((tls_model("initial-exec")));

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

void throttle_wake(struct trapline_throttle *t)
{
	atomic_set(&t->taken, 2u);
	t->generation++;
	sys4(SYS_futex, &t->taken, FUTEX_WAKE, INT32_MAX, NULL);
}

void throttle_forked(void)
{
	for (uint32_t i = 0; i < THROTTLES_MAX; i++) {
		throttles[i].generation++;
		throttle_give(&throttles[i]);
	}
}

TRAP_PATH static uint64_t page_faults(int who)
{
	struct rusage usage;

	memset(&usage, 0, sizeof(usage));
	sys2(SYS_getrusage, who, &usage);
	return (uint64_t)usage.ru_minflt + (uint64_t)usage.ru_majflt;
}

/* Only some threads of the process draw from the account. */
TRAP_PATH static int is_by_name(const struct trapline_throttle *t)
{
	return t->region && t->region->thread[0];
}

/* What this thread, or this process, has drawn. */
TRAP_PATH static uint64_t drawn_here(const struct trapline_throttle *t)
{
	int thread = (t->flags & TRAPLINE_THROTTLE_EACH) || is_by_name(t);
	uint64_t drawn = 0;

	if (t->clock)
		return clock_ns(t->clock);
	if (thread || t->scope == TRAPLINE_PROCESS) {
		if (t->counter == TRAPLINE_TASK_CLOCK)
			return clock_ns(thread ? CLOCK_THREAD_CPUTIME_ID :
						 CLOCK_PROCESS_CPUTIME_ID);
		if (t->counter == TRAPLINE_PAGE_FAULTS)
			return page_faults(thread ? RUSAGE_THREAD : RUSAGE_SELF);
	}
	event_read_count(t->event, 0, &drawn);
	return drawn;
}

TRAP_PATH static uint64_t cost_of(const struct trapline_throttle *t, uint64_t drawn)
{
	return (uint64_t)((unsigned __int128)drawn * t->cost >> 32);
}

TRAP_PATH static struct thread_account *account_of(const struct trapline_throttle *t)
{
	struct thread_account *account = &accounts[t->index];

	if (account->generation != t->generation) {
		account->generation = t->generation;
		account->is_throttled = 0;
		account->held = 0;
		account->reported = drawn_here(t);
		account->origin = clock_now_ns() - cost_of(t, account->reported);
	}
	return account;
}

/* Adds to the shared account what has been drawn here since the last time. */
TRAP_PATH static void report(struct trapline_throttle *t)
{
	uint64_t *reported = is_by_name(t) ? &account_of(t)->reported : &t->reported;
	uint64_t now = drawn_here(t);
	uint64_t before = atomic_get(reported);

	while (now > before)
		if (atomic_cas(reported, &before, now)) {
			atomic_add(&t->account->drawn, now - before);
			break;
		}
}

TRAP_PATH uint64_t throttle_drawn(struct trapline_throttle *t)
{
	if (t->flags & TRAPLINE_THROTTLE_EACH || t->account == &t->own)
		return drawn_here(t);
	report(t);
	return atomic_get(&t->account->drawn);
}

TRAP_PATH static uint64_t *origin_of(struct trapline_throttle *t)
{
	return t->flags & TRAPLINE_THROTTLE_EACH ? &account_of(t)->origin : &t->account->origin;
}

TRAP_PATH static uint32_t *state_of(struct trapline_throttle *t)
{
	return t->flags & TRAPLINE_THROTTLE_EACH ? &account_of(t)->is_throttled : &t->is_throttled;
}

void throttle_share(struct trapline_throttle *t, struct throttle_region *region, uint32_t budget)
{
	t->region = region;
	t->totals = &region->budgets[budget];
	t->account = &t->totals->account;
	/* What was drawn before is not a debt. */
	t->reported = drawn_here(t);
}

void throttle_begin(struct trapline_throttle *t, uint64_t per_second)
{
	uint64_t unopened = 0;

	t->cost = (uint64_t)(((unsigned __int128)1000000000u << 32) / per_second);
	if (!t->account)
		t->account = &t->own;
	t->wake_ns = 0;
	t->drawn_before = throttle_drawn(t);
	atomic_cas(&t->account->origin, &unopened, clock_now_ns() - cost_of(t, t->drawn_before));
}

/* When the account will be even. */
TRAP_PATH static uint64_t due_ns(struct trapline_throttle *t, uint64_t now)
{
	return throttle_due(origin_of(t), cost_of(t, throttle_drawn(t)), t->burst_ns, now);
}

TRAP_PATH uint64_t throttle_debt(struct trapline_throttle *t)
{
	uint64_t now = clock_now_ns();
	uint64_t due = due_ns(t, now);

	return (int64_t)(due - now) > 0 ? due - now : 0;
}

TRAP_PATH static void report_even(struct trapline_throttle *t)
{
	uint32_t throttled = 1;

	if (atomic_cas(state_of(t), &throttled, 0u) && t->unthrottled)
		t->unthrottled(t->arg);
}

TRAP_PATH static void report_debt(struct trapline_throttle *t, uint64_t debt)
{
	uint32_t even = 0;

	if (debt <= t->debt_ns || !atomic_cas(state_of(t), &even, 1u))
		return;
	counter_add(&t->throttled_count, 1);
	if (t->totals)
		counter_add(&t->totals->throttled, 1);
	if (t->throttled)
		t->throttled(t->arg, debt);
}

/* The command has ended, killed or not, or has stated so. */
TRAP_PATH static int is_over(const struct throttle_region *region)
{
	return atomic_get(&region->stop) || sys2(SYS_kill, region->share.observer, 0) == -ESRCH;
}

/* What ends a sleep early: the end of the command, or of the budget. */
TRAP_PATH static uint32_t *end_word(struct trapline_throttle *t, uint32_t *running)
{
	*running = t->region ? 0 : 1;
	return t->region ? (uint32_t *)(uintptr_t)&t->region->stop : &t->taken;
}

void throttle_spare(int is_spared)
{
	spared = is_spared;
}

TRAP_PATH static void sleep_until(struct trapline_throttle *t, uint64_t until_ns)
{
	struct timespec until = { (time_t)(until_ns / 1000000000u),
				  (long)(until_ns % 1000000000u) };
	uint32_t running;
	uint32_t *word = end_word(t, &running);

	sys6(SYS_futex, word, FUTEX_WAIT_BITSET, running, &until, NULL, 1u << t->index);
}

TRAP_PATH static int has_ended(const struct trapline_throttle *t, uint32_t generation)
{
	return atomic_get(&t->taken) != 1 || t->generation != generation ||
	       (t->region && is_over(t->region));
}

/* An account of its own needs no queue. */
TRAP_PATH static uint64_t look_at(struct trapline_throttle *t, uint64_t ticket, uint64_t due)
{
	if (t->flags & TRAPLINE_THROTTLE_EACH)
		return due;
	return throttle_queue_look_at(&t->queue, ticket, due, cost_of(t, t->check));
}

/* The one that has slept longest. */
TRAP_PATH static void wake_next(struct trapline_throttle *t, uint64_t due, uint64_t now)
{
	uint32_t running;

	if (throttle_queue_is_behind(&t->queue, due, cost_of(t, t->check), now))
		sys6(SYS_futex, end_word(t, &running), FUTEX_WAKE_BITSET, 1, NULL, NULL,
		     1u << t->index);
}

TRAP_PATH static void count_sleep(struct trapline_throttle *t, uint64_t slept_ns)
{
	counter_add(&t->sleeps, 1);
	counter_add(&t->slept_ns, slept_ns);
	if (t->totals) {
		counter_add(&t->totals->sleeps, 1);
		counter_add(&t->totals->slept_ns, slept_ns);
	}
}

/*
 * A sleep draws, too. A thread that slept just until the account was even would be in debt when it
 * wakes up. It would pay for that by the next sleep, and so on, without doing anything else. So it
 * sleeps longer by what was missing lately. Where others draw from the account, that states
 * nothing.
 */
TRAP_PATH static void learn_cost(struct trapline_throttle *t, int64_t missing)
{
	uint64_t old = counter_get(&t->wake_ns);
	uint64_t cost = missing > 0 ? old + (uint64_t)missing : old - old / 16;

	if (!t->clock && !(t->flags & TRAPLINE_THROTTLE_EACH))
		return;
	__atomic_store_n(&t->wake_ns, cost < WAKE_MAX_NS ? cost : WAKE_MAX_NS, __ATOMIC_RELAXED);
}

/*
 * Others draw in the meantime, so look again. A signal for the program ends a sleep, and the sleep
 * continues.
 */
TRAP_PATH uint64_t throttle_pay(struct trapline_throttle *t)
{
	uint64_t start = clock_now_ns();
	uint64_t now = start;
	uint32_t generation = t->generation;
	const struct trapline_event *event = t->event;
	uint64_t due = due_ns(t, now);

	if ((int64_t)(due - now) <= 0) {
		report_even(t);
		return 0;
	}
	uint64_t *held = &account_of(t)->held;
	uint64_t ticket = throttle_queue_enter(&t->queue, held);
	while ((int64_t)(due - now) > 0 && !has_ended(t, generation) && t->event == event) {
		uint64_t until = look_at(t, ticket, due) + counter_get(&t->wake_ns);
		sleep_until(t, until);
		now = clock_now_ns();
		due = due_ns(t, now);
		if ((int64_t)(now - until) >= 0)
			learn_cost(t, (int64_t)(due - now));
	}
	throttle_queue_leave(&t->queue, held, ticket);
	wake_next(t, due, now);
	report_even(t);
	if (now != start)
		count_sleep(t, now - start);
	return now - start;
}

TRAP_PATH void throttle_rest(struct trapline_throttle *t)
{
	atomic_set(&t->event->wanted, 0u);
	event_sync(t->event);
}

TRAP_PATH static int has_name(const char *wanted)
{
	char name[16] = "";

	sys2(SYS_prctl, PR_GET_NAME, name);
	for (size_t i = 0; i < sizeof(name); i++) {
		if (wanted[i] == '*')
			return 1;
		if (wanted[i] != name[i])
			return 0;
		if (!wanted[i])
			break;
	}
	return 1;
}

/* Whether this sample means anything to a budget of the command. */
TRAP_PATH static int is_concerned(struct trapline_throttle *t)
{
	if (!t->region)
		return 1;
	if (is_over(t->region)) {
		/* What stays behind costs nothing. */
		throttle_rest(t);
		return 0;
	}
	if (is_by_name(t) && !has_name(t->region->thread))
		return 0;
	counter_add(&t->totals->checks, 1);
	return 1;
}

TRAP_PATH void throttle_check(struct trapline_throttle *t)
{
	if (!is_concerned(t))
		return;
	uint64_t debt = throttle_debt(t);

	counter_add(&t->checks, 1);
	if (!debt) {
		report_even(t);
		return;
	}
	report_debt(t, debt);
	if (t->flags & TRAPLINE_THROTTLE_SLEEP && !spared)
		throttle_pay(t);
}
