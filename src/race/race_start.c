/* SPDX-License-Identifier: MIT */
/*
 * race_start.c - the search begins in this process: events are opened, costs are
 * measured.
 *
 * Not in a handler.
 */
#include "race/race_start.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/own_fd.h"
#include "base/own_status.h"
#include "base/sys.h"
#include "core/own_event.h"
#include "event/aim.h"
#include "event/arm.h"
#include "event/attr.h"
#include "event/event.h"
#include "event/ids.h"
#include "event/table.h"
#include "guest/own_thread.h"
#include "race/race.h"
#include "race/race_budget.h"
#include "race/race_end.h"
#include "race/race_fork.h"
#include "race/race_modules.h"
#include "race/race_outside.h"
#include "race/race_state.h"
#include "race/race_strategy.h"
#include "race/race_tick.h"
#include "race/sweep/race_functions.h"
#include "race/sweep/race_linger.h"
#include "race/sweep/race_sites_keep.h"
#include "race/watch/race_watch_cpus.h"
#include "race/watch/race_watch_open.h"
#include "record/race_region.h"
#include "trap/dispatch.h"
#include "trap/install.h"
#include "trap/stack.h"

#define LOOKS_BEFORE_LEFT 500u /* 10 s */
#define FAST_NS 200000u
/* A sample costs some microseconds: this part of the budget may go into them. */
#define TICKS_PART 5u
#define STEADY_MIN_NS 500000u
#define STEADY_MAX_NS 20000000u

static int open_timer(uint32_t which, uint64_t period_ns, int is_on)
{
	struct trapline_event *ev = event_own(race_on_timer, NULL, TRAPLINE_PROCESS);

	if (!ev)
		return -ENFILE;
	ev->wanted = (uint32_t)is_on;
	ev->applied = (uint32_t)is_on;
	event_describe_counter(ev, TRAPLINE_TASK_CLOCK, period_ns);
	event_own_begin(ev);
	race.timers[which] = ev; /* samples may come before event_arm() is done */
	int err = event_arm(ev, NULL, 0, NULL);
	if (err) {
		race.timers[which] = NULL;
		event_give(ev);
	}
	return err;
}

/* The steady period: so long that its samples use a part of the budget, and not more. */
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

/* What trapline's samples run the handler with: no clock is opened here. */
static int take_tick(void)
{
	struct trapline_event *ev = event_own(race_on_timer, NULL, TRAPLINE_PROCESS);

	if (!ev)
		return -ENFILE;
	ev->access = TRAPLINE_AMOUNT;
	event_own_begin(ev);
	race.timers[0] = ev;
	return 0;
}

static int open_timers(void)
{
	uint64_t fast = race.region->settings.sample_ns;
	int err = open_timer(1, steady_ns(), 0);

	return err ? err : open_timer(0, fast ? fast : FAST_NS, 1);
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

/*
 * As /proc/self/status has it, because asking by prctl() kills where seccomp is strict. 1, 0, or
 * -errno: it cannot be known.
 */
static int has_seccomp(void)
{
	const int mode = own_status("\nSeccomp:\t");

	return mode > 0 ? mode != '0' : mode; /* a kernel without filters has no such line */
}

int race_is_kept_by_us(void)
{
	char text[512];
	struct stat st;
	int fd;

	if (sys4(SYS_newfstatat, AT_FDCWD, "/proc/self/task", &st, 0) || st.st_nlink > 4)
		return 0;
	fd = own_fd_open("/proc/self/stat", 0);
	ssize_t n = fd < 0 ? 0 : sys_read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		sys_close(fd);
	text[n > 0 ? n : 0] = '\0';
	const char *end = strrchr(text, ')');
	return end && !strncmp(end, ") Z", 3);
}

static int open_all(void)
{
	if (is_go())
		return failed_at(RACE_STEP_RUNTIME, -EOPNOTSUPP);
	int filter = has_seccomp();
	if (filter)
		return failed_at(filter < 0 ? RACE_STEP_FILTER_UNKNOWN : RACE_STEP_SECCOMP,
				 filter < 0 ? filter : -EOPNOTSUPP);
	/* Rust's signal stacks have 8 KiB, of which the kernel's frame takes 3. */
	trap_on_thread_stack = 1;
	int err = trap_install();
	if (err)
		return failed_at(RACE_STEP_SIGNAL, err);
	stack_warm_up();
	own_thread_prepare();
	race_functions_prepare();
	race.program = race_module_of(getauxval(AT_ENTRY));
	err = race_watch_open();
	if (err)
		return failed_at(RACE_STEP_WATCH, err);
	err = race_break_open();
	if (err)
		return failed_at(RACE_STEP_BREAK, err);
	err = race_turn_open();
	if (err)
		return failed_at(RACE_STEP_BREAK, err);
	race_budget_start();
	race.budget.own_threads = race.flags & RACE_HAS_READER ? 1 : 0;
	if (race_strategy->is_for_some)
		return 0; /* others are not stalled */
	err = race_watch_get_ready();
	if (!err)
		err = race.flags & RACE_HAS_TICKS ? take_tick() : open_timers();
	if (!err)
		err = race_outside_start();
	return err ? failed_at(RACE_STEP_TIMER, err) : 0;
}

/* What is known of a process that found no row in the region: it is not read. */
static struct race_process unlisted;

static int begin(struct race_region *region, uint32_t flags)
{
	struct race_cpu_events cpus = race.cpus;
	uint64_t trap_ns = race.budget.trap_ns;

	memset(&race, 0, sizeof(race));
	race.budget.trap_ns = trap_ns ? trap_ns : region->settings.trap_ns;
	race.cpus = cpus;
	race.region = region;
	race.flags = flags;
	race_strategy_choose(region);
	race.pid = sys_getpid();
	race_random_start();
	race.process = race_add_process(region, race.pid);
	if (!race.process) {
		/* Traps that it has from its parent count, too. */
		race.process = &unlisted;
		race.is_stopped = 1;
		return -ENOSPC;
	}
	race.phase = RACE_STARTING;
	/* Where it cannot be seen from here, its looks must do. */
	race.observer = region->share.observer;
	if (race.observer && sys2(SYS_kill, race.observer, 0) == -ESRCH)
		race.observer = 0;
	own_fd_lowest = OWN_FD_OF_EVENTS;
	race_watch_choose();
	int err = flags & RACE_IS_LATE ? race_watch_have_descriptors() : 0;
	err = err ? failed_at(RACE_STEP_DESCRIPTORS, err) : open_all();
	atomic_set(&race.phase, (uint32_t)RACE_RUNNING);
	if (err) {
		race.flags &= ~RACE_OWNS_REGION;
		race_end(race.process->step, err);
	}
	return err;
}

/* What sends the samples has numbers of the first namespace. */
static int is_in_first_namespace(void)
{
	struct ids ids;

	ids_read(sys_getpid(), &ids);
	return !ids.numbered_by.inode;
}

/* 0, or -errno: this process needs its own clocks. */
static int map_gate(uint32_t flags)
{
	if (race_common_gate)
		return 0;
	/* One that was attached to knows its number there from the settings. */
	if (!(flags & RACE_IS_LATE) && !is_in_first_namespace())
		return -EOPNOTSUPP;
	long at = sys6(SYS_mmap, RACE_GATE_AT, RACE_GATE_BYTES, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (at < 0)
		return (int)at;
	if ((uint64_t)at != RACE_GATE_AT) { /* before Linux 4.17 it is a hint */
		memory_unmap((void *)at, RACE_GATE_BYTES);
		return -EEXIST;
	}
	race_common_gate = (struct race_gate *)at;
	return 0;
}

/*
 * Any thread that is stalled at a site continues, and no thread of Trapline makes a call any more.
 */
static int end_sweep(void)
{
	atomic_set(&race.is_stopped, 1u);
	int err = race_sites_end();
	race_linger_end();
	race_sites_wait();
	return err;
}

int race_stop(enum race_step why)
{
	struct timespec step = { 0, 1000000 };
	int is_last_call = why == RACE_STEP_SECCOMP;
	int is_last_signal = why == RACE_STEP_OWN_TRAP;

	if ((is_last_call || is_last_signal) && atomic_get(&race.phase) == RACE_RUNNING &&
	    end_sweep() && is_last_signal)
		return -EAGAIN; /* a trap that is left kills where SIGTRAP is blocked */
	int err = race_end(why, why ? -ECANCELED : 0);

	/* Another thread is at it. */
	for (int n = 0; n < 1000 && atomic_get(&race.phase) == RACE_ENDING; n++)
		sys_nap(&step);
	if (is_last_call) {
		/* Signals may be on their way to threads that have not run since. */
		trap_make_no_calls();
		race_sites_wait();
	}
	return err == -EALREADY ? 0 : err;
}

int race_is_asked_to_end(void)
{
	return atomic_get(&race.phase) == RACE_RUNNING && atomic_get(&race.region->stop);
}

/* One that cannot be seen from here may be about to open its end of the pipe. */
void race_end_if_left(void)
{
	static uint32_t looks;
	const int is_left = atomic_get(&race.phase) == RACE_RUNNING &&
			    !(race.flags & RACE_HAS_READER) &&
			    (!race.observer || race_is_unwatched()) && race_outside_is_left();

	looks = is_left ? looks + 1 : 0;
	if (is_left && (race.observer || looks > LOOKS_BEFORE_LEFT))
		race_stop(RACE_STEP_UNWATCHED);
}

int race_start(struct race_region *region, uint32_t flags)
{
	if (region->share.magic != RACE_MAGIC || region->share.bytes != sizeof(*region))
		return -EPROTO;
	/* A program that starts after the end of the search. */
	if (atomic_get(&region->stop))
		return -ECANCELED;
	/* A command that was killed while this began has left no reader for it. */
	if (race.phase == RACE_RUNNING && !(race.flags & RACE_HAS_READER) &&
	    (!race.observer || race_is_unwatched()) && race_outside_is_left())
		race_stop(RACE_STEP_UNWATCHED);
	if (race.phase != RACE_IDLE && race.phase != RACE_ENDED)
		return -EBUSY;
	race_modules_forget();
	if (region->settings.has_ticks && map_gate(flags) == 0)
		flags |= RACE_HAS_TICKS;
	int err = begin(region, flags);
	if (err || !(flags & RACE_IS_LATE) || !race_is_unwatched())
		return err;
	race.flags &= ~(uint32_t)RACE_OWNS_REGION;
	race_end(RACE_STEP_UNWATCHED, -ECANCELED);
	return -ECANCELED;
}

static int is_of_cpus(const struct trapline_event *ev)
{
	return ev->roots.fds >= race.cpus.fds[0] &&
	       ev->roots.fds < race.cpus.fds[0] + RACE_CPU_EVENTS * RACE_CPUS;
}

static void each_descriptor(void (*act)(void *arg, int fd), void *arg)
{
	for (int i = 0; i < EVENT_MAX; i++) {
		const struct trapline_event *ev = &event_table[i];

		if (ev->state == EVENT_FREE || !ev->roots.fds || is_of_cpus(ev))
			continue;
		for (size_t k = 0; k < ev->roots.count; k++)
			act(arg, ev->roots.fds[k]);
	}
	for (uint32_t i = 0; i < race.clocks.count; i++)
		act(arg, race.clocks.fds[i]);
	for (uint32_t i = 0; i < RACE_CPU_EVENTS * race.cpus.count; i++)
		act(arg, race.cpus.fds[i / race.cpus.count][i % race.cpus.count]);
}

struct descriptors {
	int from;
	int *fds;
	int count;
	int most;
};

static void insert(void *arg, int fd)
{
	struct descriptors *d = arg;

	if (fd < d->from || (d->count == d->most && fd > d->fds[d->most - 1]))
		return;
	int at = d->count < d->most ? d->count++ : d->most - 1;
	for (; at && d->fds[at - 1] > fd; at--)
		d->fds[at] = d->fds[at - 1];
	d->fds[at] = fd;
}

int race_descriptors(int from, int *fds, int n)
{
	struct descriptors d = { from, fds, 0, n };

	each_descriptor(insert, &d);
	return d.count;
}

struct wanted {
	int fd;
	int is_there;
};

static void compare(void *arg, int fd)
{
	struct wanted *wanted = arg;

	wanted->is_there |= fd == wanted->fd;
}

/* Each close() of the program asks. */
int race_owns_descriptor(int fd)
{
	struct wanted wanted = { fd, 0 };

	if (race.region && fd >= own_fd_lowest)
		each_descriptor(compare, &wanted);
	return wanted.is_there;
}

void race_refuse(struct race_region *region, enum race_step step, int err)
{
	race.process = race_add_process(region, sys_getpid());
	if (race.process)
		failed_at(step, err);
}

/* The events of the CPUs are left: end() or start() is next. */
static void forget(void)
{
	trap_forked();
	race_let_go_of_copies();
	/* What is in a table of Trapline's own stays with the parent. */
	if (race.cpus.fds[0][0] >= OWN_FD_FAR)
		memset(&race.cpus, 0, sizeof(race.cpus));
	struct race_cpu_events cpus = race.cpus;
	uint64_t trap_ns = race.budget.trap_ns;
	memset(&race, 0, sizeof(race));
	race.budget.trap_ns = trap_ns;
	race.cpus = cpus;
}

void race_forget(void)
{
	forget();
	race_cpus_end();
}

int race_forked(void)
{
	struct race_region *region = race.region;

	race_forking = 0;
	if (!region || race.phase == RACE_ENDED)
		return -ESRCH;
	int goes_on = race.phase == RACE_RUNNING && !race_is_stopped() &&
		      !atomic_get(&region->stop);
	uint32_t flags = race.flags;

	if (flags & RACE_IS_LATE)
		flags |= RACE_IS_FORKED;
	if (flags & RACE_IS_LATE && !is_in_first_namespace())
		flags &= ~(uint32_t)RACE_HAS_TICKS;
	forget();
	if (!goes_on || !(flags & RACE_HAS_TICKS))
		race_cpus_end();
	return goes_on ? begin(region, flags) : -ECANCELED;
}
