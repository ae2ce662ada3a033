/* SPDX-License-Identifier: MIT */
/*
 * race_watch_cpus.c - watchpoints and the breakpoint as events of the CPUs.
 *
 * `trapline race` has opened them (race/host/race_cpu_events.h states why), and this process has
 * copies of their descriptors. All processes of a run share them: a process that uses one owns it
 * for that time, by a word in the region. A trap becomes a plain SIGTRAP. The BPF program has
 * written its details into a map, by stack pointer. The gate shows the program which generation of
 * events this process waits for, so a late signal is recognized as with events of the process
 * itself.
 */
#include "race/watch/race_watch_cpus.h"

#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <string.h>
#include <sys/mman.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/own_fd.h"
#include "base/sys.h"
#include "base/trap_path.h"
#include "event/aim.h"
#include "event/control.h"
#include "event/event.h"
#include "race/race.h"
#include "race/race_outside.h"
#include "race/race_state.h"
#include "race/stall/race_slot.h"
#include "race/watch/race_watch.h"
#include "record/race_region.h"
#include "trap/arch.h"
#include "trap/dispatch.h"
#include "trap/inflight.h"

#define TRAPS_BYTES ((sizeof(struct race_traps) + 4095) / 4096 * 4096)
/* A stall is over by then, no matter what became of its thread. */
#define WATCH_LEFT_NS 11000000000u
/* The thread that chose a breakpoint has gone another way. */
#define BREAK_LEFT_NS 2000000u
/*
 * The limit for one event in a period of the scheduler: a hundred, where perf_event_max_sample_rate
 * is as it was.
 */
#define STORM_TRAPS 64u

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
	long at = sys_mmap(&place, TRAPS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
			   0);
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

static long copy_from_observer(void *unused)
{
	int pidfd = (int)sys2(SYS_pidfd_open, race.region->share.observer, 0);

	if (pidfd < 0)
		return pidfd;
	if (copy_all(pidfd))
		close_copies();
	return sys_close(pidfd);
}

/*
 * Where they may not be had (a user, a security module) it continues with what is left of the
 * registers.
 */
void race_cpus_start(void)
{
	const struct race_settings *set = &race.region->settings;

	/* A child that was forked has them already. */
	if (!set->cpu_count || !(race.flags & RACE_HAS_TICKS) || race.cpus.count)
		return;
	own_fd_run(copy_from_observer, NULL);
}

void race_cpu_event(struct trapline_event *ev, enum race_cpu_event which)
{
	ev->mechanism = TRAPLINE_BY_BPF; /* what informs the thread */
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

TRAP_PATH static int cpus_take(uint32_t which)
{
	uint64_t now = clock_now_ns();
	uint64_t lasts = which == RACE_CPU_BREAK ? BREAK_LEFT_NS : WATCH_LEFT_NS;

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

TRAP_PATH static int is_ours(uint32_t which)
{
	return atomic_get(&owner_of(which)->pid) == own_number();
}

TRAP_PATH static void cpus_give(uint32_t which)
{
	uint64_t pid = own_number();

	atomic_cas(&owner_of(which)->pid, &pid, (uint64_t)0);
}

/*
 * After the event is on: what traps before it is known here is not a hit, and has been done before
 * the old value is read. An exception orders the access before the inspection of the gate, and
 * Trapline's next system call this store before that read.
 */
TRAP_PATH static void await(const struct trapline_event *ev, uint32_t which)
{
	if (which == RACE_CPU_WATCH)
		atomic_set(&race.gate->mask, (uint64_t)0);
	atomic_set(&race.gate->awaited[which], 1ull << 32 | atomic_get(&ev->generation));
}

TRAP_PATH void race_cpu_await_nothing(uint32_t which)
{
	atomic_set(&race.gate->awaited[which], (uint64_t)0);
}

/* ---- the watch ---- */

TRAP_PATH static int take_watch(void)
{
	return cpus_take(RACE_CPU_WATCH);
}

TRAP_PATH static void give_watch(void)
{
	cpus_give(RACE_CPU_WATCH);
}

TRAP_PATH static uint64_t taken(void)
{
	return counter_get(&place.traps.taken[RACE_CPU_WATCH]);
}

TRAP_PATH static int arm(struct race_slot *slot)
{
	const struct race_target *t = &slot->target;

	race_slot_count_again(slot);
	slot->taken_before = taken();
	slot->counted_before = 0;
	event_read_count(slot->event, 0, &slot->counted_before);
	int err = event_aim(slot->event, t->part, t->part_len, TRAPLINE_READ_WRITE);
	if (!err)
		await(slot->event, RACE_CPU_WATCH);
	return err;
}

/* What leaves that value there is a read, most likely. */
TRAP_PATH static void cpus_pass_over(const struct race_slot *slot)
{
	const struct race_target *t = &slot->target;
	uint32_t shift = (uint32_t)(t->part & 7) * 8;
	uint64_t mask = (t->part_len == 8 ? ~0ull : (1ull << 8 * t->part_len) - 1) << shift;

	atomic_set(&race.gate->value, slot->old_value << shift & mask);
	atomic_set(&race.gate->mask, mask);
}

TRAP_PATH static void cpus_pause(struct race_slot *slot)
{
	if (is_ours(RACE_CPU_WATCH))
		event_pause(slot->event);
}

TRAP_PATH static void disarm(struct race_slot *slot)
{
	race_cpu_await_nothing(RACE_CPU_WATCH);
	event_retire(slot->event);
	inflight_wait(race.pid, slot->event->index);
}

TRAP_PATH static int cpus_count_traps(const struct race_slot *slot, uint64_t *traps)
{
	*traps = taken() - slot->taken_before;
	return 0;
}

/*
 * Too many, of others or of reads, and the kernel drops some; or another process took it from
 * Trapline.
 */
TRAP_PATH static int may_have_missed(const struct race_slot *slot)
{
	uint64_t traps = 0;

	return !is_ours(RACE_CPU_WATCH) || event_read_count(slot->event, 0, &traps) ||
	       traps - slot->counted_before > STORM_TRAPS;
}

/* No thread escapes it. */
TRAP_PATH static uint64_t no_births(void)
{
	return 0;
}

/* ---- the breakpoint ---- */

/* Another process may have it by now, since no thread reached the address. */
TRAP_PATH static void put_away(struct trapline_event *ev)
{
	race_cpu_await_nothing(RACE_CPU_BREAK);
	if (is_ours(RACE_CPU_BREAK))
		event_rest(ev);
	cpus_give(RACE_CPU_BREAK);
}

/* On this CPU alone, where the caller continues in a moment, or on all. */
TRAP_PATH static int cpus_aim_all(struct trapline_event *ev, uint64_t pc, int is_birth)
{
	struct event_roots *roots = &ev->roots;
	uint32_t cpu = 0;

	put_away(ev); /* perhaps it is at another location */
	if (!cpus_take(RACE_CPU_BREAK))
		return -EBUSY;
	sys3(SYS_getcpu, &cpu, NULL, NULL);
	int is_on_all = is_birth || cpu >= race.cpus.count;
	roots->fds = race.cpus.fds[RACE_CPU_BREAK] + (is_on_all ? 0 : cpu);
	roots->count = is_on_all ? race.cpus.count : 1;
	int err = event_aim(ev, pc, sizeof(long), TRAPLINE_EXECUTE);
	if (err)
		cpus_give(RACE_CPU_BREAK);
	else
		await(ev, RACE_CPU_BREAK);
	return err;
}

const struct race_watch_ops race_watch_cpus = {
	.take = take_watch,
	.give = give_watch,
	.arm = arm,
	.pass_over = cpus_pass_over,
	.pause = cpus_pause,
	.disarm = disarm,
	.count_traps = cpus_count_traps,
	.may_have_missed = may_have_missed,
	.births = no_births,
	.aim_all = cpus_aim_all,
	.put_away = put_away,
};

/* ---- their signals ---- */

/* 1: a signal that the kernel's program has sent to this thread, of what it saw there. */
TRAP_PATH static int find_sent(const ucontext_t *context, struct trap_sent *out)
{
	uint64_t sp = arch_sp(context);
	uint64_t row = sp * HASH_MIX >> (64 - RACE_TRAPS_LOG2);

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

/* Those of the program that ran here before exec(), or of a process that had Trapline's number. */
static void disown_all(void)
{
	for (uint32_t i = 0; i < RACE_CPU_EVENTS; i++)
		cpus_give(i);
}

void race_cpus_listen(void)
{
	if (!race.cpus.count)
		return;
	disown_all();
	atomic_set(&trap_find_sent, find_sent);
}

/* What others use now is not Trapline's to switch off. */
TRAP_PATH void race_cpus_stop(void)
{
	if (!race.cpus.count)
		return;
	for (uint32_t which = 0; which < RACE_CPU_EVENTS; which++) {
		struct trapline_event *ev = race.cpus.events[which];

		if (ev && is_ours(which))
			event_pause(ev);
		if (ev)
			ev->roots.count = 0;
		if (race.gate)
			race_cpu_await_nothing(which);
		cpus_give(which);
	}
}

/* In a forked child: the events continue, and its copies serve it as well. */
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
