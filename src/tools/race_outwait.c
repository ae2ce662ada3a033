/* SPDX-License-Identifier: MIT */
/*
 * race_outwait.c - in a sweep, a thread is held until those that sleep by the clock have woken up.
 *
 * Tests like to put threads in order by sleep(): then the two accesses of a race are a tenth of a second
 * apart, each made once, and no stall of a usual length sees both. While the others sleep nothing
 * else runs, so that a stall would end early, too. But they need nobody to wake them.
 *
 * Once in a run of the program, for one of the sites drawn by chance; and for a third of the time at
 * most, since in many a program somebody sleeps all the time.
 */
#include <linux/futex.h>

#include "base/clock.h"
#include "base/sys.h"
#include "event/event.h"
#include "tools/race_priv.h"

#define STEP_NS 2000000
#define AWAKE_NS 8000000u /* so long the one that woke up has for its access */
#define OUTWAIT_MAX_NS 400000000u
#define ONE_IN 3u
#define PART 3u
#define GRACE_NS 1000000000u /* is there from the beginning */
#define THREADS_MAX 64u /* looked at */

struct search {
	uint32_t looked_at;
	uint32_t found;
};

/* The system call that it is in, by its number; -1: none, or nobody says so. */
TRAP_PATH static long syscall_of(pid_t tid)
{
	char text[8];
	long number = 0;

	ssize_t n = race_read_of_thread(tid, "/syscall", text, sizeof(text));
	if (n <= 0 || text[0] < '0' || text[0] > '9') /* "running" */
		return -1;
	for (ssize_t i = 0; i < n && text[i] >= '0' && text[i] <= '9'; i++)
		number = number * 10 + (text[i] - '0');
	return number;
}

TRAP_PATH static int look_at(void *arg, pid_t tid)
{
	struct search *s = arg;
	long number = syscall_of(tid);

	s->found += number == SYS_clock_nanosleep || number == SYS_nanosleep;
	return s->found || ++s->looked_at >= THREADS_MAX;
}

TRAP_PATH static int does_anybody_sleep(struct race_slot *slot)
{
	struct search s = { 0, 0 };

	tasks_each(race.pid, &slot->names, look_at, &s);
	return s.found != 0;
}

TRAP_PATH static int can_be_paid(uint64_t now_ns)
{
	struct race_region *region = race.region;
	uint64_t since = 0;

	if (atomic_cas(&region->outwait_since_ns, &since, now_ns))
		since = now_ns;
	return counter_get(&region->outwaited_ns) < (now_ns - since + GRACE_NS) / PART;
}

/* 1: this stall may; no other one in this process will. */
TRAP_PATH static int take_turn(struct race_slot *slot, uint64_t now_ns)
{
	uint32_t none = 0;

	if (!race.region->settings.is_sweep || race_is_replay() || atomic_get(&race.has_outwaited) ||
	    (!race_is_focused() && race_random() % ONE_IN) || !can_be_paid(now_ns))
		return 0;
	return does_anybody_sleep(slot) && atomic_cas(&race.has_outwaited, &none, 1u);
}

TRAP_PATH uint64_t race_outwait(struct race_slot *slot)
{
	const struct timespec step = { 0, STEP_NS };
	uint64_t start = clock_now_ns();
	uint64_t now = start;
	uint64_t slept = start; /* when somebody was last seen asleep */

	if (!race_slot_waits(slot) || !take_turn(slot, start))
		return 0;
	while (race_slot_waits(slot) && now - slept < AWAKE_NS && now - start < OUTWAIT_MAX_NS) {
		sys6(SYS_futex, &slot->state, FUTEX_WAIT_PRIVATE, SLOT_OPEN, &step, NULL, 0);
		now = clock_now_ns();
		if (does_anybody_sleep(slot))
			slept = now;
	}
	race_count(RACE_STALLS_OUTWAITED);
	counter_add(&race.region->outwaited_ns, now - start);
	return now - start;
}
