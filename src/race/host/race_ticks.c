/* SPDX-License-Identifier: MIT */
/*
 * race_ticks.c - see race_ticks.h.
 *
 * The BPF program reads the gate of the process (record/race_region.h) at each sample. The gate
 * is in memory that exec() removes, so another program never gets the signal. A sample
 * that is too early for the budget costs no signal at all.
 */
#include "race/host/race_ticks.h"

#include "base/clock.h"
#include "base/ebpf.h"
#include "base/sys.h"
#include "event/bpf/kernel_offset.h"
#include "event/ids.h"
#include "race/host/race_regs.h"

#include <errno.h>
#include <linux/bpf_perf_event.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#define INT3 0xcc
#define PERIOD_AT_START_NS 100000000u
#define PRICE_PERIOD_NS 100000u
#define PRICE_TAKES_NS 2500000u
#define PRICE_MOST_NS 20000000u /* to take, on a busy machine */
#define PRICE_LEAST_NS 1000u
#define PRICE_HIGHEST_NS 60000u
#define PRICE_ENOUGH 12u
#define PRICE_GAPS 128u

/* What the BPF program needs to know and is known late. */
struct gate_place {
	uint64_t at; /* 0: not yet */
	uint64_t magic;
	uint64_t user;
};

/* Below the copy of the gate. */
#define KEY_AT (RACE_GATE_COPY - (int)sizeof(uint64_t))

void race_emit_end_if(struct ebpf *p, int op, int dst, int src)
{
	uint32_t ends = ebpf_jump(p, op, dst, src);
	uint32_t goes_on = ebpf_jump_imm(p, BPF_JA, 0, 0);

	ebpf_land(p, ends);
	ebpf_mov_imm(p, R0, 0);
	ebpf_exit(p);
	ebpf_land(p, goes_on);
}

/* R7: struct gate_place; R9: the process. */
static void emit_end_if_foreign(struct ebpf *p, int members_fd)
{
	ebpf_call(p, BPF_FUNC_get_current_uid_gid);
	ebpf_alu_imm(p, BPF_LSH, R0, 32);
	ebpf_alu_imm(p, BPF_RSH, R0, 32);
	ebpf_load_mem(p, BPF_DW, R1, R7, offsetof(struct gate_place, user));
	uint32_t is_users = ebpf_jump(p, BPF_JEQ, R0, R1);
	ebpf_store(p, BPF_DW, R10, KEY_AT, R9);
	ebpf_load_map(p, R1, members_fd);
	ebpf_mov(p, R2, R10);
	ebpf_alu_imm(p, BPF_ADD, R2, KEY_AT);
	ebpf_call(p, BPF_FUNC_map_lookup_elem);
	race_emit_end_if(p, BPF_JEQ, R0, R8);
	ebpf_land(p, is_users);
}

/* To R1, a member of the running thread: zero if it cannot be read. */
static void emit_load_of_task(struct ebpf *p, int at, int size, uint32_t bytes)
{
	ebpf_call(p, BPF_FUNC_get_current_task);
	ebpf_mov(p, R3, R0);
	ebpf_alu_imm(p, BPF_ADD, R3, at);
	ebpf_mov(p, R1, R10);
	ebpf_alu_imm(p, BPF_ADD, R1, KEY_AT);
	ebpf_mov_imm(p, R2, (int32_t)bytes);
	ebpf_call(p, BPF_FUNC_probe_read_kernel);
	ebpf_load_mem(p, size, R1, R10, KEY_AT);
}

static void emit_end_if_traced(struct ebpf *p, int ptrace_at)
{
	if (ptrace_at < 0)
		return;
	emit_load_of_task(p, ptrace_at, BPF_W, sizeof(uint32_t));
	race_emit_end_if(p, BPF_JNE, R1, R8);
}

/* The signal would wait there, and the program could take it by sigwait(3) or signalfd(2). */
static void emit_end_if_blocked(struct ebpf *p, int blocked_at)
{
	if (blocked_at < 0)
		return;
	emit_load_of_task(p, blocked_at, BPF_DW, sizeof(uint64_t));
	ebpf_mov_imm(p, R2, 1 << (SIGTRAP - 1));
	race_emit_end_if(p, BPF_JSET, R1, R2);
}

void race_emit_gate(struct ebpf *p, const struct race_maps *maps)
{
	ebpf_mov(p, R6, R1);
	ebpf_call(p, BPF_FUNC_get_current_pid_tgid);
	ebpf_mov(p, R9, R0);
	ebpf_alu_imm(p, BPF_RSH, R9, 32);
	ebpf_load_map_value(p, R7, maps->place_fd, 0);
	ebpf_load_mem(p, BPF_DW, R3, R7, offsetof(struct gate_place, at));
	ebpf_mov_imm(p, R8, 0);
	race_emit_end_if(p, BPF_JEQ, R3, R8);
	ebpf_mov(p, R1, R10);
	ebpf_alu_imm(p, BPF_ADD, R1, RACE_GATE_COPY);
	ebpf_mov_imm(p, R2, sizeof(struct race_gate));
	ebpf_call(p, BPF_FUNC_probe_read_user);
	race_emit_end_if(p, BPF_JNE, R0, R8);
	ebpf_load_mem(p, BPF_DW, R1, R10, RACE_GATE_COPY + (int)offsetof(struct race_gate, magic));
	ebpf_load_mem(p, BPF_DW, R2, R7, offsetof(struct gate_place, magic));
	race_emit_end_if(p, BPF_JNE, R1, R2);
	ebpf_load_mem(p, BPF_DW, R1, R10, RACE_GATE_COPY + (int)offsetof(struct race_gate, pid));
	race_emit_end_if(p, BPF_JNE, R1, R9);
	emit_end_if_foreign(p, maps->members_fd);
	emit_end_if_traced(p, maps->ptrace_at);
	emit_end_if_blocked(p, maps->blocked_at);
}

static void emit(struct ebpf *p, const struct race_maps *maps)
{
	race_emit_gate(p, maps);
	ebpf_call(p, BPF_FUNC_ktime_get_ns);
	ebpf_load_mem(p, BPF_DW, R1, R10,
		      RACE_GATE_COPY + (int)offsetof(struct race_gate, open_ns));
	race_emit_end_if(p, BPF_JLT, R0, R1);
	/*
	 * After an int3 the process could not distinguish this signal from that of the
	 * int3.
	 */
	ebpf_mov(p, R1, R10);
	ebpf_alu_imm(p, BPF_ADD, R1, RACE_GATE_COPY);
	ebpf_mov_imm(p, R2, 1);
	ebpf_load_mem(p, BPF_DW, R3, R6, BPF_PC);
	ebpf_alu_imm(p, BPF_SUB, R3, 1);
	ebpf_call(p, BPF_FUNC_probe_read_user);
	race_emit_end_if(p, BPF_JNE, R0, R8);
	ebpf_load_mem(p, BPF_B, R1, R10, RACE_GATE_COPY);
	ebpf_mov_imm(p, R2, INT3);
	race_emit_end_if(p, BPF_JEQ, R1, R2);
	ebpf_mov_imm(p, R1, SIGTRAP);
	ebpf_call(p, BPF_FUNC_send_signal_thread);
	ebpf_mov_imm(p, R0, 0);
	ebpf_exit(p);
}

static int ticks_load(const struct race_maps *maps)
{
	static struct ebpf program;

	program.count = 0;
	program.overflow = 0;
	emit(&program, maps);
	return ebpf_load(&program, BPF_PROG_TYPE_PERF_EVENT, NULL, 0);
}

/* pid 0: of the calling thread, -1: of all. cpu -1: of all. */
static int open_cpu_clock(pid_t pid, int cpu, uint64_t period_ns)
{
	struct perf_event_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.size = sizeof(attr);
	attr.type = PERF_TYPE_SOFTWARE;
	attr.config = PERF_COUNT_SW_CPU_CLOCK;
	attr.sample_period = period_ns;
	attr.disabled = 1;
	attr.exclude_kernel = 1;
	attr.exclude_hv = 1;
	attr.exclude_idle = 1;
	return sys_perf_event_open(&attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static int ticks_compare(const void *a, const void *b)
{
	const uint64_t *x = a;
	const uint64_t *y = b;

	return *x < *y ? -1 : *x > *y;
}

/*
 * Samples in the calling thread, and for how long each stopped it: 2 us, or 20 us below a
 * hypervisor. On a busy machine a stop is longer while other threads run, so the shorter
 * stops count.
 */
static uint64_t measure_price(int clock)
{
	uint64_t gaps[PRICE_GAPS];
	uint64_t start = clock_now_ns();
	uint64_t last = start;
	size_t n = 0;

	sys_ioctl(clock, PERF_EVENT_IOC_ENABLE, 0);
	while (n < PRICE_GAPS &&
	       last - start < (n < PRICE_ENOUGH ? PRICE_MOST_NS : PRICE_TAKES_NS)) {
		uint64_t now = clock_now_ns();

		if (now - last > PRICE_LEAST_NS)
			gaps[n++] = now - last;
		last = now;
	}
	sys_ioctl(clock, PERF_EVENT_IOC_DISABLE, 0);
	qsort(gaps, n, sizeof(gaps[0]), ticks_compare);
	uint64_t price = n ? gaps[n / 4] : PRICE_LEAST_NS;
	return price < PRICE_HIGHEST_NS ? price : PRICE_HIGHEST_NS;
}

/*
 * While any event of a task is open, opening another one takes some microseconds. The
 * first takes ten milliseconds, because all CPUs must learn of it (account_event() in
 * kernel/events/core.c). A program with few stalls would wait for them each time.
 */
static int open_task_event(struct race_ticks *ticks)
{
	ticks->task_fd = open_cpu_clock(0, -1, PRICE_PERIOD_NS);
	if (ticks->task_fd < 0)
		return ticks->task_fd;
	ticks->price_ns = measure_price(ticks->task_fd);
	return 0;
}

int race_give_program(int fd, int program)
{
	if (fd < 0)
		return fd;
	int err = sys_ioctl(fd, PERF_EVENT_IOC_SET_BPF, (uintptr_t)program);
	if (!err)
		return fd;
	sys_close(fd);
	return err;
}

static int open_clocks(struct race_ticks *ticks, int program)
{
	int cpus = get_nprocs_conf();

	ticks->fds = calloc((size_t)cpus, sizeof(int));
	if (!ticks->fds)
		return -ENOMEM;
	for (int cpu = 0; cpu < cpus; cpu++) {
		int fd = race_give_program(open_cpu_clock(-1, cpu, PERIOD_AT_START_NS), program);

		if (fd == -ENODEV)
			continue; /* not online */
		if (fd < 0)
			return fd;
		ticks->fds[ticks->count++] = fd;
	}
	return ticks->count ? 0 : -ENODEV;
}

bool race_is_in_first_namespace(pid_t pid)
{
	return ids_are_first(pid);
}

bool race_is_process(pid_t pid)
{
	return pid > 1 && (!kill(pid, 0) || errno == EPERM);
}

static int make_maps(struct race_maps *maps)
{
	if (!ids_are_first(getpid()))
		return -EOPNOTSUPP;
	maps->place_fd = ebpf_map_create(BPF_MAP_TYPE_ARRAY, 4, sizeof(struct gate_place), 1, 0);
	if (maps->place_fd < 0)
		return maps->place_fd;
	maps->members_fd = ebpf_map_create(BPF_MAP_TYPE_HASH, 8, 1, RACE_MEMBERS, 0);
	maps->ptrace_at = kernel_member_offset("task_struct", "ptrace");
	maps->blocked_at = kernel_member_offset("task_struct", "blocked");
	return maps->members_fd < 0 ? maps->members_fd : 0;
}

int race_ticks_open(struct race_ticks *ticks)
{
	*ticks = (struct race_ticks)RACE_TICKS_NONE;
	int err = make_maps(&ticks->maps);
	int program = err ? err : ticks_load(&ticks->maps);

	if (!err && program < 0 && ticks->maps.ptrace_at >= 0) {
		ticks->maps.ptrace_at = -1; /* a locked-down kernel */
		ticks->maps.blocked_at = -1;
		program = ticks_load(&ticks->maps);
	}
	err = program < 0 ? program : open_clocks(ticks, program);
	if (!err)
		err = open_task_event(ticks);
	if (program >= 0)
		sys_close(program); /* the clocks keep it */
	if (err)
		race_ticks_close(ticks);
	return err;
}

int race_ticks_start(struct race_ticks *ticks, uint64_t magic, uid_t user)
{
	const struct gate_place place = { RACE_GATE_AT, magic, user };
	const uint32_t key = 0;
	int err = ebpf_map_write(ticks->maps.place_fd, &key, &place);

	for (int i = 0; !err && i < ticks->count; i++)
		err = sys_ioctl(ticks->fds[i], PERF_EVENT_IOC_ENABLE, 0);
	return err;
}

void race_ticks_pace(struct race_ticks *ticks, uint64_t period_ns)
{
	if (ticks->period_ns == period_ns)
		return;
	ticks->period_ns = period_ns;
	for (int i = 0; i < ticks->count; i++)
		sys_ioctl(ticks->fds[i], PERF_EVENT_IOC_PERIOD, (uintptr_t)&period_ns);
}

void race_ticks_forget_tasks(struct race_ticks *ticks)
{
	if (ticks->task_fd >= 0)
		sys_close(ticks->task_fd);
	ticks->task_fd = -1;
}

static void close_map(int fd)
{
	if (fd >= 0)
		sys_close(fd);
}

void race_ticks_close(struct race_ticks *ticks)
{
	for (int i = 0; i < ticks->count; i++)
		sys_close(ticks->fds[i]);
	close_map(ticks->maps.place_fd);
	close_map(ticks->maps.members_fd);
	race_ticks_forget_tasks(ticks);
	free(ticks->fds);
	*ticks = (struct race_ticks)RACE_TICKS_NONE;
}
