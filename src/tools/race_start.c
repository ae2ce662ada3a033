/* SPDX-License-Identifier: MIT */
/*
 * race_start.c - the search begins in this process: events are opened, prices are measured.
 *
 * Registers: up to three watches for the whole process, opened once, disabled, and moved to where
 * a thread is held; one is left for each thread's breakpoint on the access ahead. Not in a handler.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/clock.h"
#include "base/sys.h"
#include "tools/race.h"
#include "tools/race_priv.h"
#include "trap/trap.h"

#define FAST_NS 200000u
/* A tick costs some microseconds: this part of the budget may go into them. */
#define TICKS_PART 5u
#define STEADY_MIN_NS 500000u
#define STEADY_MAX_NS 20000000u
#define LOWEST_FD 600
#define WATCH_BYTES 8u

/* Members that trapline_watch() and its like would set. The callback may run from now on. */
static void open_event(struct trapline_event *ev)
{
	ev->pid = race.pid;
	ev->owner_pid = race.pid;
	ev->flags = TRAPLINE_NO_VALUES;
	atomic_set(&ev->state, EVENT_LIVE);
}

static int prepare_slots(void)
{
	int err = 0;

	for (int i = 0; i < RACE_SLOTS; i++) {
		struct race_slot *slot = &race.slots[i];
		struct trapline_event *ev = event_take();

		if (!ev)
			return -ENFILE;
		ev->callback = race_on_watch;
		ev->arg = slot;
		ev->scope = TRAPLINE_PROCESS;
		/* Any address will do: it is disabled, and only moved ones are enabled. */
		event_describe_range(ev, (uintptr_t)&race & ~7ull, WATCH_BYTES,
				     TRAPLINE_READ_WRITE);
		ev->roots.fds_per_root = 1;
		open_event(ev);
		err = event_arm(ev, NULL, 0, NULL);
		if (err) {
			event_give(ev);
			break;
		}
		slot->event = ev;
		slot->state = SLOT_FREE;
		race.slot_count++;
	}
	race.process->watches = race.slot_count;
	return race.slot_count ? 0 : err;
}

static int prepare_aims(void)
{
	for (int i = 0; i < RACE_AIM_ROWS; i++) {
		struct race_aim *aim = &race.aims[i];
		struct trapline_event *ev = event_take();

		if (!ev)
			return -ENFILE;
		ev->callback = race_on_aim;
		ev->arg = aim;
		ev->scope = TRAPLINE_CALLER;
		event_describe_code(ev, 0);
		open_event(ev);
		ev->roots.fds = &aim->fd;
		ev->roots.classes = &aim->class;
		ev->roots.fds_per_root = 1;
		aim->event = ev;
		aim->state = AIM_FREE;
		aim->tid = 0;
	}
	return 0;
}

static int open_timer(uint32_t which, uint64_t period_ns, int is_on)
{
	struct trapline_event *ev = event_take();

	if (!ev)
		return -ENFILE;
	ev->callback = race_on_timer;
	ev->scope = TRAPLINE_PROCESS;
	ev->wanted = (uint32_t)is_on;
	ev->applied = (uint32_t)is_on;
	event_describe_counter(ev, TRAPLINE_TASK_CLOCK, period_ns);
	ev->roots.fds_per_root = 1;
	open_event(ev);
	race.timers[which] = ev; /* ticks may come before event_arm() is done */
	int err = event_arm(ev, NULL, 0, NULL);
	if (err)
		event_give(ev);
	return err;
}

/* The steady period: so long that its ticks use a part of the budget, and not more. */
static uint64_t steady_ns(void)
{
	const struct race_settings *set = &race.region->settings;
	uint64_t tick_ns = race.budget.trap_ns + 4000;

	if (set->sample_ns)
		return set->sample_ns;
	if (!set->budget_ppm)
		return STEADY_MAX_NS;
	uint64_t period = tick_ns * TICKS_PART * 1000000u / set->budget_ppm;
	if (period < STEADY_MIN_NS)
		return STEADY_MIN_NS;
	return period > STEADY_MAX_NS ? STEADY_MAX_NS : period;
}

static int open_timers(void)
{
	uint64_t fast = race.region->settings.sample_ns;
	int err = open_timer(1, steady_ns(), 0);

	return err ? err : open_timer(0, fast ? fast : FAST_NS, 1);
}

static enum trapline_action on_probe(const struct trapline_hit *hit)
{
	return TRAPLINE_GO_ON;
}

static __attribute__((noipa)) void probe_here(void)
{
	__asm__ volatile("" ::: "memory");
}

/* The price of one trap here, and whether a breakpoint can be had at all. */
static int measure_trap(void)
{
	struct trapline_event *ev = race.aims[0].event;
	uint64_t best = UINT64_MAX;

	if (race.budget.trap_ns)
		return 0; /* known from the process that forked us */
	ev->callback = on_probe;
	int err = event_aim_self(ev, (uintptr_t)probe_here);
	for (int i = 0; !err && i < 8; i++) {
		uint64_t start = clock_now_ns();
		probe_here();
		uint64_t took = clock_now_ns() - start;
		best = took < best ? took : best;
	}
	event_let_go(ev);
	ev->callback = race_on_aim;
	race.budget.trap_ns = err ? 0 : best;
	return err;
}

static int failed_at(enum race_step step, int err)
{
	race.process->step = step;
	race.process->error = err;
	return err;
}

/* Programs in Go carry a note of that name. */
static int is_go(void)
{
	const ElfW(Phdr) *ph = (const void *)(uintptr_t)getauxval(AT_PHDR);
	uint64_t count = getauxval(AT_PHNUM);
	uint64_t bias = 0;

	for (uint64_t i = 0; ph && i < count; i++)
		if (ph[i].p_type == PT_PHDR)
			bias = (uintptr_t)ph - ph[i].p_vaddr;
	for (uint64_t i = 0; ph && i < count; i++) {
		const ElfW(Nhdr) *note = (const void *)(uintptr_t)(bias + ph[i].p_vaddr);

		if (ph[i].p_type == PT_NOTE && ph[i].p_filesz > sizeof(*note) + 4 &&
		    note->n_namesz == 4 && !memcmp(note + 1, "Go\0", 4))
			return 1;
	}
	return 0;
}

/* As /proc/self/status tells it; asking by prctl() kills where it is strict. */
static int has_seccomp(void)
{
	char text[4096];
	int fd = (int)sys4(SYS_openat, AT_FDCWD, "/proc/self/status", O_RDONLY | O_CLOEXEC, 0);
	ssize_t n = fd < 0 ? 0 : sys_read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		sys_close(fd);
	text[n > 0 ? n : 0] = '\0';
	const char *at = strstr(text, "\nSeccomp:\t");
	return at && at[strlen("\nSeccomp:\t")] != '0';
}

static int open_all(void)
{
	if (is_go())
		return failed_at(RACE_STEP_RUNTIME, -EOPNOTSUPP);
	if (has_seccomp())
		return failed_at(RACE_STEP_SECCOMP, -EOPNOTSUPP);
	/* Rust's signal stacks hold 8 KiB, of which the kernel's frame takes 3. */
	trap_on_thread_stack = 1;
	int err = trap_install();
	if (err)
		return failed_at(RACE_STEP_SIGNAL, err);
	stack_warm_up();
	race_functions_prepare();
	race.program = race_module_of(getauxval(AT_ENTRY));
	err = prepare_slots();
	if (err)
		return failed_at(RACE_STEP_WATCH, err);
	err = prepare_aims();
	if (!err)
		err = measure_trap();
	if (err)
		return failed_at(RACE_STEP_BREAK, err);
	race_budget_start();
	if (race_is_replay())
		return 0; /* others are not held */
	err = open_timers();
	return err ? failed_at(RACE_STEP_TIMER, err) : 0;
}

int race_start(struct race_region *region)
{
	if (region->magic != RACE_MAGIC || region->bytes != sizeof(*region))
		return -EPROTO;
	uint64_t trap_ns = race.budget.trap_ns;
	memset(&race, 0, sizeof(race));
	race.budget.trap_ns = trap_ns;
	race.region = region;
	race.pid = sys_getpid();
	race.random = clock_now_ns() * 0x9e3779b97f4a7c15u + (uint64_t)race.pid;
	race.process = race_add_process(region, race.pid);
	if (!race.process)
		return -ENOSPC;
	event_lowest_fd = LOWEST_FD;
	return open_all();
}

int race_descriptors(int *fds, int n)
{
	int count = 0;

	for (int i = 0; i < EVENT_MAX; i++) {
		const struct trapline_event *ev = &event_table[i];

		if (ev->state == EVENT_FREE || !ev->roots.fds)
			continue;
		for (size_t k = 0; k < ev->roots.count && count < n; k++) {
			int at = count++;
			for (; at && fds[at - 1] > ev->roots.fds[k]; at--)
				fds[at] = fds[at - 1];
			fds[at] = ev->roots.fds[k];
		}
	}
	return count;
}

int race_owns_descriptor(int fd)
{
	int fds[EVENT_MAX];

	if (!race.region || fd < event_lowest_fd)
		return 0;
	int count = race_descriptors(fds, EVENT_MAX);
	for (int i = 0; i < count; i++)
		if (fds[i] == fd)
			return 1;
	return 0;
}

/* A watch or breakpoint that stayed would trap for nothing. */
static void close_events(void)
{
	for (uint32_t i = 0; i < RACE_TIMERS; i++)
		if (race.timers[i])
			event_let_go(race.timers[i]);
	for (uint32_t i = 0; i < race.slot_count; i++)
		event_let_go(race.slots[i].event);
	for (uint32_t i = 0; i < RACE_AIM_ROWS; i++)
		if (race.aims[i].event)
			event_let_go(race.aims[i].event);
}

void race_stop(enum race_step why)
{
	struct timespec step = {0, 1000000};

	if (!race.region || !race.slot_count || atomic_swap(&race.is_stopped, 1u))
		return;
	for (int n = 0; n < 1000; n++) {
		uint32_t busy = 0;
		for (uint32_t i = 0; i < race.slot_count; i++)
			busy += atomic_get(&race.slots[i].state) != SLOT_FREE;
		if (!busy)
			break;
		sys2(SYS_nanosleep, &step, NULL);
	}
	close_events();
	failed_at(why, -ECANCELED);
}

void race_refuse(struct race_region *region, enum race_step step, int err)
{
	race.process = race_add_process(region, sys_getpid());
	if (race.process)
		failed_at(step, err);
}

/* Rows of the table whose descriptors are copies of the parent's. */
static void let_go_of_copies(void)
{
	for (int i = 0; i < EVENT_MAX; i++) {
		struct trapline_event *ev = &event_table[i];

		if (ev->state == EVENT_FREE)
			continue;
		event_forget_copies(ev);
		event_disarm(ev);
		event_give(ev);
	}
}

int race_forked(void)
{
	struct race_region *region = race.region;

	if (!region)
		return -ESRCH;
	trap_forked();
	let_go_of_copies();
	return race_start(region);
}
