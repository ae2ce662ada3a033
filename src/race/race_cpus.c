/* SPDX-License-Identifier: MIT */
/*
 * race_cpus.c - watchpoints and the breakpoint as events of the CPUs.
 *
 * `trapline race` has opened them (race/host/race_cpu_events.h says why), and this process has copies
 * of their descriptors. All processes of a run share them: a process that uses one owns
 * it for that time, by a word in the region. A trap becomes a plain SIGTRAP. The BPF
 * program has written its details into a map, by stack pointer. The gate tells the
 * program which generation of events this process waits for, so a late signal is
 * recognized as with events of the process itself.
 */
#include "race/race_cpus.h"

#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <string.h>
#include <sys/mman.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/sys.h"
#include "base/trap_path.h"
#include "event/aim.h"
#include "event/event.h"
#include "race/race.h"
#include "race/race_outside.h"
#include "race/race_state.h"
#include "record/race_region.h"
#include "trap/arch.h"
#include "trap/trap.h"

#define TRAPS_BYTES ((sizeof(struct race_traps) + 4095) / 4096 * 4096)
/* A stall is over by then, whatever became of its thread. */
#define WATCH_LEFT_NS 11000000000u
/* Who chose a breakpoint has gone another way. */
#define BREAK_LEFT_NS 2000000u

/* There for good: a signal may be on its way when the search ends. */
static union {
	struct race_traps traps;
	uint8_t bytes[TRAPS_BYTES];
} place __attribute__((aligned(4096)));

/* What must be done before the map is there, and again when it is gone. */
static void place_nothing(void)
{
	sys6(SYS_mmap, &place, TRAPS_BYTES, PROT_READ | PROT_WRITE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static int place_map(int pidfd)
{
	int fd = race_copy_descriptor(pidfd, (int)race.region->settings.traps_fd,
				      "anon_inode:bpf-map");

	if (fd < 0)
		return fd;
	long at = sys6(SYS_mmap, &place, TRAPS_BYTES, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_FIXED, fd, 0);
	sys_close(fd);
	if (at >= 0)
		return 0;
	place_nothing();
	return (int)at;
}

static int copy_one(int pidfd, uint32_t which, uint32_t cpu)
{
	const struct race_settings *set = &race.region->settings;
	int fd = race_copy_event(pidfd, set->cpu_fds[which][cpu], set->cpu_ids[which][cpu]);

	if (fd < 0)
		return fd;
	race.cpus.fds[which][cpu] = fd;
	return 0;
}

static int copy_all(int pidfd)
{
	uint32_t count = race.region->settings.cpu_count;
	int err = count > RACE_CPUS ? -EPROTO : 0;

	for (uint32_t i = 0; !err && i < RACE_CPU_EVENTS * count; i++)
		err = copy_one(pidfd, i / count, i % count);
	if (!err)
		err = place_map(pidfd);
	if (!err)
		race.cpus.count = count;
	return err;
}

static void close_copies(void)
{
	for (uint32_t i = 0; i < RACE_CPU_EVENTS * RACE_CPUS; i++)
		if (race.cpus.fds[i / RACE_CPUS][i % RACE_CPUS])
			sys_close(race.cpus.fds[i / RACE_CPUS][i % RACE_CPUS]);
	memset(&race.cpus, 0, sizeof(race.cpus));
}

/* Where they may not be had (a user, a security module) it goes on with what is left of the registers. */
void race_cpus_start(void)
{
	const struct race_settings *set = &race.region->settings;

	/* A child that was forked has them already. */
	if (!set->cpu_count || !(race.flags & RACE_HAS_TICKS) || race.cpus.count)
		return;
	int pidfd = (int)sys2(SYS_pidfd_open, race.region->share.observer, 0);
	if (pidfd < 0)
		return;
	if (copy_all(pidfd))
		close_copies();
	sys_close(pidfd);
}

void race_cpu_event(struct trapline_event *ev, enum race_cpu_event which)
{
	ev->mechanism = TRAPLINE_BY_BPF; /* what tells the thread */
	ev->attr = race.region->settings.cpu_attr;
	if (which == RACE_CPU_BREAK)
		ev->attr.bp_type = HW_BREAKPOINT_X;
	ev->roots.fds = race.cpus.fds[which];
	ev->roots.count = race.cpus.count;
	race.cpus.events[which] = ev;
}

TRAP_PATH static struct race_cpu_owner *owner_of(uint32_t which)
{
	return &race.region->cpu_owners[which];
}

/* As the command knows us. */
TRAP_PATH static uint64_t own_number(void)
{
	return race.gate ? race.gate->pid : (uint64_t)race.pid;
}

TRAP_PATH static int is_left(const struct race_cpu_owner *owner, uint64_t pid, uint64_t now_ns)
{
	return now_ns > counter_get(&owner->until_ns) || sys2(SYS_kill, pid, 0) == -ESRCH;
}

TRAP_PATH int race_cpu_take(uint32_t which)
{
	uint64_t now = clock_now_ns();
	uint64_t lasts = which == RACE_CPU_BREAK ? BREAK_LEFT_NS : WATCH_LEFT_NS;

	if (!race_is_on_cpus())
		return 1;
	if (counter_get(&race.region->cpus_changed))
		return 0;
	struct race_cpu_owner *owner = owner_of(which);
	uint64_t pid = atomic_get(&owner->pid);
	if (pid && pid != own_number() && !is_left(owner, pid, now))
		return 0;
	if (!atomic_cas(&owner->pid, &pid, own_number()))
		return 0;
	atomic_set(&owner->until_ns, now + lasts);
	return 1;
}

TRAP_PATH int race_cpu_is_ours(uint32_t which)
{
	return atomic_get(&owner_of(which)->pid) == own_number();
}

TRAP_PATH void race_cpu_give(uint32_t which)
{
	uint64_t pid = own_number();

	atomic_cas(&owner_of(which)->pid, &pid, (uint64_t)0);
}

/*
 * After the event is on: what traps before it is known here is no hit, and has been done before the old
 * value is read. An exception orders the access before the look at the gate, and our next system call
 * this store before that read.
 */
TRAP_PATH void race_cpu_await(const struct trapline_event *ev, uint32_t which)
{
	if (which == RACE_CPU_WATCH)
		atomic_set(&race.gate->mask, (uint64_t)0);
	atomic_set(&race.gate->awaited[which], 1ull << 32 | atomic_get(&ev->generation));
}

TRAP_PATH void race_cpu_await_nothing(uint32_t which)
{
	atomic_set(&race.gate->awaited[which], (uint64_t)0);
}

TRAP_PATH void race_cpu_pass_over(uint64_t address, uint32_t len, uint64_t value)
{
	uint32_t shift = (uint32_t)(address & 7) * 8;
	uint64_t mask = (len == 8 ? ~0ull : (1ull << 8 * len) - 1) << shift;

	atomic_set(&race.gate->value, value << shift & mask);
	atomic_set(&race.gate->mask, mask);
}

TRAP_PATH uint64_t race_cpu_taken(uint32_t which)
{
	return counter_get(&place.traps.taken[which]);
}

/* 1: a signal that the kernel's program has sent to this thread, of what it saw there. */
TRAP_PATH static int find_sent(const ucontext_t *context, struct trap_sent *out)
{
	uint64_t sp = arch_sp(context);
	uint64_t row = sp * RACE_TRAP_MIX >> (64 - RACE_TRAPS_LOG2);

	for (uint32_t which = 0; which < RACE_CPU_EVENTS; which++) {
		struct race_trap *trap = &place.traps.rows[which][row];
		const struct trapline_event *ev = race.cpus.events[which];

		if (atomic_get(&trap->sp) != sp || !ev)
			continue;
		out->event = ev;
		out->generation = (uint32_t)trap->generation;
		out->address = trap->address;
		out->is_late = trap->pc != arch_pc(context);
		atomic_set(&trap->sp, (uint64_t)0);
		return 1;
	}
	return 0;
}

/* Those of the program that ran here before exec(), or of a process that had our number. */
static void disown_all(void)
{
	for (uint32_t i = 0; i < RACE_CPU_EVENTS; i++)
		race_cpu_give(i);
}

void race_cpus_listen(void)
{
	if (!race_is_on_cpus())
		return;
	disown_all();
	atomic_set(&trap_find_sent, find_sent);
}

/* What others use now is not ours to switch off. */
TRAP_PATH void race_cpus_stop(void)
{
	if (!race_is_on_cpus())
		return;
	for (uint32_t which = 0; which < RACE_CPU_EVENTS; which++) {
		struct trapline_event *ev = race.cpus.events[which];

		if (ev && race_cpu_is_ours(which))
			event_pause(ev);
		if (ev)
			ev->roots.count = 0;
		if (race.gate)
			race_cpu_await_nothing(which);
		race_cpu_give(which);
	}
}

/* In a forked child: the events go on, and its copies serve it as well. */
void race_cpus_forked(void)
{
	atomic_set(&trap_find_sent, (trap_finder)NULL);
	for (uint32_t which = 0; which < RACE_CPU_EVENTS; which++) {
		if (race.cpus.events[which])
			race.cpus.events[which]->roots.count = 0;
		race.cpus.events[which] = NULL;
	}
}

void race_cpus_end(void)
{
	if (!race.cpus.count)
		return;
	atomic_set(&trap_find_sent, (trap_finder)NULL);
	close_copies();
	place_nothing();
}
