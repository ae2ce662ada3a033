/* SPDX-License-Identifier: MIT */
/* probe_counter.c - probes of counters: clocks, page faults, the PMU, and lost overflows.
 */
#include "check/probe_counter.h"
#include "check/probe.h"
#include "check/probe_util.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/sys.h"

#define CLOCK_PERIOD_NS 100000u
#define CLOCK_ROUNDS 4
#define CLOCK_BUDGET_NS 20000000u

/* CPU time in system calls, as most of it is in a busy server. */
static void spin_in_syscalls(uint64_t ns)
{
	uint64_t end = clock_now_ns() + ns;

	while (clock_now_ns() < end) {
		for (int i = 0; i < 50; i++)
			sys0(SYS_getppid);
	}
}

static void spin_in_user(uint64_t ns)
{
	uint64_t end = clock_now_ns() + ns;

	while (clock_now_ns() < end)
		continue;
}

/*
 * Interrupts of the clock that a virtual machine slept over are not raised later: this share may be
 * missing.
 */
static int is_complete(uint32_t signals, uint64_t expected)
{
	return expected > 0 && signals + 2 + expected / 20 >= expected;
}

/*
 * Signals of a task clock over CPU time spent by spin. Returns 0 or -errno. A busy machine makes
 * interrupts late, and late ones merge, which is not what is looked for. So the best of some rounds
 * counts.
 */
static int clock_signals(int in_kernel, void (*spin)(uint64_t ns), uint32_t *signals,
			 uint64_t *expected)
{
	struct perf_event_attr attr;

	probe_catch();
	probe_attr_counter(&attr, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, CLOCK_PERIOD_NS);
	attr.exclude_kernel = !in_kernel;
	for (int round = 0; round < CLOCK_ROUNDS; round++) {
		uint32_t before = probe_trap.signals;
		int fd = probe_open(&attr, 0, -1);

		if (fd < 0)
			return fd;
		spin(CLOCK_BUDGET_NS);
		*expected = probe_count(fd) / CLOCK_PERIOD_NS;
		*signals = probe_trap.signals - before;
		sys_close(fd);
		if (is_complete(*signals, *expected))
			break;
	}
	return 0;
}

void probe_counter_task_clock(struct probe_result *r)
{
	uint32_t signals;
	uint64_t expected;
	int err = clock_signals(0, spin_in_user, &signals, &expected);

	if (err)
		return probe_refused(r, err, "task-clock with sigtrap", 2);
	probe_say(r, is_complete(signals, expected),
		  "try on an idle machine, then with kernel 6.1 or later",
		  "%llu periods of 0.1 ms in user mode: %u signals", (unsigned long long)expected,
		  signals);
}

/* exclude_kernel drops interrupts that arrive in the kernel, for ever: perf_exclude_event(). */
void probe_overflow_signals(struct probe_result *r)
{
	uint32_t user = 0;
	uint32_t all = 0;
	uint64_t user_expected = 0;
	uint64_t all_expected = 0;
	int err = clock_signals(0, spin_in_syscalls, &user, &user_expected);

	if (err)
		return probe_refused(r, err, "task-clock with sigtrap", 2);
	err = clock_signals(1, spin_in_syscalls, &all, &all_expected);
	unsigned int rate = user_expected ? (unsigned int)(100 * user / user_expected) : 0;
	if (err) {
		char tried[PROBE_TEXT_MAX];

		snprintf(tried, sizeof(tried),
			 "task-clock in a loop of system calls, exclude_kernel=1: %u of "
			 "%llu (%u %%); "
			 "=0",
			 user, (unsigned long long)user_expected, rate);
		return probe_refused(r, err, tried, 1);
	}
	probe_say(r, is_complete(all, all_expected),
		  "try on an idle machine, then with kernel 6.1 or later",
		  "task-clock in a loop of system calls, exclude_kernel=1: %u of %llu "
		  "(%u %%), "
		  "=0: %u of %llu",
		  user, (unsigned long long)user_expected, rate, all,
		  (unsigned long long)all_expected);
}

void probe_counter_page_faults(struct probe_result *r)
{
	struct perf_event_attr attr;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t len = (PROBE_HITS + 1) * page;
	volatile char *area =
		mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned int exact = 0;

	if (area == MAP_FAILED)
		return probe_no(r, "free some memory", "not tried: no memory");
	madvise((void *)(uintptr_t)area, len, MADV_NOHUGEPAGE);
	probe_catch();
	probe_attr_counter(&attr, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, 1);
	int fd = probe_open(&attr, 0, -1);
	if (fd < 0)
		return probe_refused(r, fd, "page-faults with sigtrap", 2);
	/* The first touch also faults in what the handler itself needs. */
	area[0] = 1;
	probe_trap.signals = 0;
	for (size_t i = 1; i <= PROBE_HITS; i++) {
		area[i * page + 8] = 1;
		exact += probe_trap.addr == (uintptr_t)(area + i * page + 8);
	}
	probe_say(r, exact == PROBE_HITS && probe_trap.signals >= PROBE_HITS,
		  "use kernel 5.13 or later",
		  "%u pages touched: %u signals, %u with the exact address", PROBE_HITS,
		  probe_trap.signals, exact);
}

const char *probe_no_pmu(const char **remedy)
{
	int is_virtual = probe_is_virtual();

	*remedy =
		is_virtual ?
			"enable the PMU of this virtual machine on its host (KVM: -cpu host,pmu=on)" :
			"use a machine whose processor has a PMU that this kernel supports";
	return is_virtual ? "this virtual machine has no hardware counters (PMU)" :
			    "this machine has no hardware counters (PMU)";
}

static void pmu_refused(struct probe_result *r, int err, const char *tried)
{
	const char *remedy;
	const char *why = probe_no_pmu(&remedy);

	if (err == -ENOENT || err == -EOPNOTSUPP || err == -ENODEV)
		probe_no(r, remedy, "%s", why);
	else
		probe_refused(r, err, tried, 2);
}

static void pmu_count(struct probe_result *r, uint64_t config, const char *name)
{
	struct perf_event_attr attr;
	const char *remedy;

	probe_no_pmu(&remedy);
	probe_attr_counter(&attr, PERF_TYPE_HARDWARE, config, 0);
	int fd = probe_open(&attr, 0, -1);
	if (fd < 0)
		return pmu_refused(r, fd, name);
	for (volatile int i = 0; i < 100000; i++)
		continue;
	uint64_t n = probe_count(fd);
	/* A loop of 100 000 rounds has a branch each, and takes cycles. */
	probe_say(r, n >= 100000, remedy, "%s over a loop of 100000 rounds: %llu", name,
		  (unsigned long long)n);
}

void probe_pmu_instructions(struct probe_result *r)
{
	pmu_count(r, PERF_COUNT_HW_INSTRUCTIONS, "instructions");
}

void probe_pmu_cycles(struct probe_result *r)
{
	pmu_count(r, PERF_COUNT_HW_CPU_CYCLES, "cycles");
}

void probe_pmu_branches(struct probe_result *r)
{
	pmu_count(r, PERF_COUNT_HW_BRANCH_INSTRUCTIONS, "branches");
}

/*
 * Dropped when the interrupt lands in the kernel: Linux commit cc1582c231ea, v4.12-rc5,
 * did it and was reverted. A prime period, so that it lands everywhere.
 */
void probe_pmu_overflow(struct probe_result *r)
{
	struct perf_event_attr attr;
	const uint64_t period = 7919;

	probe_catch();
	probe_attr_counter(&attr, PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, period);
	int fd = probe_open(&attr, 0, -1);
	if (fd < 0)
		return pmu_refused(r, fd, "instructions with sigtrap");
	for (int i = 0; i < 20000; i++)
		sys0(SYS_getppid);
	sys_ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	uint64_t expected = probe_count(fd) / period;
	probe_say(r, is_complete(probe_trap.signals, expected), "use a kernel other than 4.12",
		  "%llu periods of %llu instructions in a loop of system calls: %u signals",
		  (unsigned long long)expected, (unsigned long long)period, probe_trap.signals);
}
