/* SPDX-License-Identifier: MIT */
/*
 * race_outwait.c - in a sweep: a stall is extended until threads in a timed sleep have
 * woken up.
 *
 * Tests often order their threads by sleep(). The two accesses of a race are then a tenth
 * of a second apart, each made once, and no stall of the usual length sees both. While
 * the other threads sleep, nothing else runs, so the stall would even end early. But
 * these threads wake up by themselves.
 *
 * One stall in a run of the program is extended, at a random site, and for at most a third of the
 * time. The cause is that in many programs some thread sleeps all the time. It lasts 0.4 s. If a
 * thread asked for a longer sleep, it lasts until that thread wakes up, for at most the second that
 * most tests take.
 */
#include "race/stall/race_outwait.h"

#include <linux/futex.h>
#include <time.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/sys.h"
#include "base/tasks.h"
#include "base/trap_path.h"
#include "race/race_state.h"
#include "race/race_strategy.h"
#include "race/stall/race_slot.h"
#include "race/stall/race_stall.h"
#include "record/race_region.h"
#include "trap/dispatch.h"

#define STEP_NS 2000000
#define AWAKE_NS 8000000u /* so long the one that woke up has for its access */
#define OUTWAIT_NS 400000000u
#define OUTWAIT_LONG_NS 1050000000u
#define PART 3u
#define GRACE_NS 1000000000u /* is there from the beginning */
#define THREADS_MAX 64u	     /* inspected */

struct search {
	uint32_t looked_at;
	uint32_t found;
	int is_one_enough;
	uint64_t longest_ns; /* that one of them asked for */
};

#define ARGUMENTS 6

/*
 * The system call that a thread is in, by its number, with the arguments; -1: none, or not known.
 */
TRAP_PATH static long syscall_of(pid_t tid, uint64_t arguments[ARGUMENTS])
{
	char text[160] = "";
	long number = 0;
	const char *c = text;

	ssize_t n = race_read_of_thread(tid, "/syscall", text, sizeof(text) - 1);
	if (n <= 0 || *c < '0' || *c > '9') /* "running" */
		return -1;
	for (; *c >= '0' && *c <= '9'; c++)
		number = number * 10 + (*c - '0');
	for (int i = 0; i < ARGUMENTS; i++) {
		arguments[i] = 0;
		if (c[0] != ' ' || c[1] != '0' || c[2] != 'x')
			continue;
		for (c += 3; *c && *c != ' '; c++)
			arguments[i] = arguments[i] << 4 |
				       (uint64_t)(*c <= '9' ? *c - '0' : *c - 'a' + 10);
	}
	return number;
}

/* Where nanosleep() and the like read how long; is_micro: a struct timeval. 0: not known. */
TRAP_PATH static uint64_t time_at(uint64_t address, int is_micro)
{
	struct timespec t;

	if (sys_read_memory(race.pid, address, &t, sizeof(t)) != (ssize_t)sizeof(t))
		return 0;
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec * (is_micro ? 1000u : 1u);
}

TRAP_PATH static uint64_t left_until(clockid_t clock, uint64_t end_ns)
{
	const uint64_t now_ns = clock_ns(clock);

	return end_ns > now_ns ? end_ns - now_ns : 0;
}

/*
 * No other thread need wake it: 1, and for how long it wanted to sleep at most; 0: that is not so.
 */
TRAP_PATH static int sleeps_by_clock(pid_t tid, uint64_t *ns)
{
	uint64_t a[ARGUMENTS];

	switch (syscall_of(tid, a)) {
	case SYS_nanosleep:
		*ns = time_at(a[0], 0);
		return 1;
	case SYS_clock_nanosleep:
		*ns = time_at(a[2], 0);
		if (a[1] & TIMER_ABSTIME)
			*ns = left_until((clockid_t)a[0], *ns);
		return 1;
	/* A wait for nothing, which was the way to sleep for less than a second once. */
	case SYS_pselect6:
		*ns = time_at(a[4], 0);
		return !a[0] && a[4];
	case SYS_ppoll:
		*ns = time_at(a[2], 0);
		return !a[1] && a[2];
#ifdef SYS_select
	case SYS_select:
		*ns = time_at(a[4], 1);
		return !a[0] && a[4];
	case SYS_poll:
		*ns = a[2] * 1000000u;
		return !a[1] && (int32_t)a[2] >= 0;
#endif
	default:
		return 0;
	}
}

TRAP_PATH static int look_at(void *arg, pid_t tid)
{
	struct search *s = arg;
	uint64_t ns;

	if (sleeps_by_clock(tid, &ns)) {
		s->found++;
		s->longest_ns = ns > s->longest_ns ? ns : s->longest_ns;
	}
	return (s->found && s->is_one_enough) || ++s->looked_at >= THREADS_MAX;
}

TRAP_PATH static int does_anybody_sleep(struct race_slot *slot)
{
	struct search s = { .is_one_enough = 1 };

	tasks_each(race.pid, &slot->names, look_at, &s);
	return s.found != 0;
}

/* 0: no thread sleeps; else for how long the one that sleeps longest asked to, at least 1. */
TRAP_PATH static uint64_t longest_sleep(struct race_slot *slot)
{
	struct search s = { .is_one_enough = 0 };

	tasks_each(race.pid, &slot->names, look_at, &s);
	return s.longest_ns ? s.longest_ns : s.found;
}

TRAP_PATH static int can_be_paid(uint64_t now_ns)
{
	struct race_region *region = race.region;
	uint64_t since = 0;

	if (atomic_cas(&region->outwait_since_ns, &since, now_ns))
		since = now_ns;
	return counter_get(&region->outwaited_ns) < (now_ns - since + GRACE_NS) / PART;
}

/* For how long this stall may continue, as no other one in this process will; 0: it may not. */
TRAP_PATH static uint64_t take_turn(struct race_slot *slot, uint64_t now_ns)
{
	struct race_region *region = race.region;
	uint32_t none = 0;

	if (!race_strategy->outwait_one_in || atomic_get(&race.has_outwaited))
		return 0;
	struct race_site *site = race_add_site(region, slot->site);
	uint32_t one_in = site && atomic_get(&site->outwaits) ? race_strategy->outwait_again :
								race_strategy->outwait_one_in;
	if (race_random() % one_in || !can_be_paid(now_ns))
		return 0;
	uint64_t longest = longest_sleep(slot);
	if (!longest || !atomic_cas(&race.has_outwaited, &none, 1u))
		return 0;
	if (site)
		atomic_add(&site->outwaits, 1u);
	return longest > OUTWAIT_NS && longest <= OUTWAIT_LONG_NS ? longest + AWAKE_NS : OUTWAIT_NS;
}

TRAP_PATH uint64_t race_outwait(struct race_slot *slot)
{
	const struct timespec step = { 0, STEP_NS };
	uint64_t start = clock_now_ns();
	uint64_t now = start;
	uint64_t slept = start; /* when a thread was last seen asleep */
	uint64_t most = race_slot_waits(slot) ? take_turn(slot, start) : 0;

	if (!most)
		return 0;
	while (race_slot_waits(slot) && now - slept < AWAKE_NS && now - start < most &&
	       !trap_signal_waits(slot->context)) {
		sys6(SYS_futex, &slot->state, FUTEX_WAIT_PRIVATE, SLOT_OPEN, &step, NULL, 0);
		now = clock_now_ns();
		if (does_anybody_sleep(slot))
			slept = now;
	}
	race_count(RACE_STALLS_OUTWAITED);
	counter_add(&race.region->outwaited_ns, now - start);
	return now - start;
}
