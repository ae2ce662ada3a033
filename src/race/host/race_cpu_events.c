/* SPDX-License-Identifier: MIT */
/* race_cpu_events.c - see race_cpu_events.h. */
#include "race/host/race_cpu_events.h"

#include "base/atomic.h"
#include "base/ebpf.h"
#include "base/hash.h"
#include "base/sys.h"
#include "race/host/race_regs.h"
#include "race/host/race_ticks.h"

#include <errno.h>
#include <linux/bpf_perf_event.h>
#include <linux/hw_breakpoint.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <sys/un.h>
#include <unistd.h>

/* The traps' map in R7, the generation that is waited for in R8. */
static void emit_record(struct ebpf *p, enum race_cpu_event which)
{
	const int16_t rows = (int16_t)offsetof(struct race_traps, rows[which]);

	ebpf_mov_imm(p, R1, 1);
	ebpf_atomic(p, BPF_ADD, R7, (int16_t)offsetof(struct race_traps, taken[which]), R1);
	ebpf_load_mem(p, BPF_DW, R0, R6, BPF_SP);
	ebpf_load_imm64(p, R1, HASH_MIX);
	ebpf_alu(p, BPF_MUL, R1, R0);
	ebpf_alu_imm(p, BPF_RSH, R1, 64 - RACE_TRAPS_LOG2);
	ebpf_alu_imm(p, BPF_MUL, R1, sizeof(struct race_trap));
	ebpf_alu(p, BPF_ADD, R7, R1);
	ebpf_load_mem(p, BPF_DW, R1, R6, BPF_PC);
	ebpf_store(p, BPF_DW, R7, (int16_t)(rows + offsetof(struct race_trap, pc)), R1);
	ebpf_store(p, BPF_DW, R7, (int16_t)(rows + offsetof(struct race_trap, generation)), R8);
	ebpf_load_mem(p, BPF_DW, R1, R6, offsetof(struct bpf_perf_event_data, addr));
	ebpf_store(p, BPF_DW, R7, (int16_t)(rows + offsetof(struct race_trap, address)), R1);
	ebpf_store(p, BPF_DW, R7, (int16_t)(rows + offsetof(struct race_trap, sp)), R0);
}

/*
 * A thread that is stalled before a read waits for writes. A read traps too; it is
 * recognized because it leaves the value as it was. A write of the same value is
 * therefore not reported here. It is found when its writer is stalled.
 */
static void emit_end_if_unchanged(struct ebpf *p)
{
	const int16_t gate = (int16_t)RACE_GATE_COPY;
	const int16_t word =
		(int16_t)(RACE_GATE_COPY - (int)sizeof(uint64_t)); /* of a key until now */

	ebpf_load_mem(p, BPF_DW, R1, R10, (int16_t)(gate + offsetof(struct race_gate, mask)));
	uint32_t all = ebpf_jump_imm(p, BPF_JEQ, R1, 0);
	ebpf_mov(p, R1, R10);
	ebpf_alu_imm(p, BPF_ADD, R1, word);
	ebpf_mov_imm(p, R2, sizeof(uint64_t));
	ebpf_load_mem(p, BPF_DW, R3, R6, offsetof(struct bpf_perf_event_data, addr));
	ebpf_alu_imm(p, BPF_AND, R3, -(int)sizeof(uint64_t));
	ebpf_call(p, BPF_FUNC_probe_read_user);
	uint32_t unknown = ebpf_jump_imm(p, BPF_JNE, R0, 0);
	ebpf_load_mem(p, BPF_DW, R1, R10, word);
	ebpf_load_mem(p, BPF_DW, R2, R10, (int16_t)(gate + offsetof(struct race_gate, mask)));
	ebpf_alu(p, BPF_AND, R1, R2);
	ebpf_load_mem(p, BPF_DW, R2, R10, (int16_t)(gate + offsetof(struct race_gate, value)));
	race_emit_end_if(p, BPF_JEQ, R1, R2);
	ebpf_land(p, unknown);
	ebpf_land(p, all);
}

static int cpus_load(enum race_cpu_event which, const struct race_maps *maps, int traps_fd)
{
	static struct ebpf program;
	struct ebpf *p = &program;

	p->count = 0;
	p->overflow = 0;
	race_emit_gate(p, maps);
	ebpf_load_mem(p, BPF_DW, R1, R10,
		      RACE_GATE_COPY + (int)offsetof(struct race_gate, awaited[which]));
	race_emit_end_if(p, BPF_JEQ, R1, R8);
	ebpf_mov(p, R8, R1);
	if (which == RACE_CPU_WATCH)
		emit_end_if_unchanged(p);
	ebpf_load_map_value(p, R7, traps_fd, 0);
	emit_record(p, which);
	ebpf_mov_imm(p, R1, SIGTRAP);
	ebpf_call(p, BPF_FUNC_send_signal_thread);
	ebpf_mov_imm(p, R0, 0);
	ebpf_exit(p);
	return ebpf_load(p, BPF_PROG_TYPE_PERF_EVENT, NULL, 0);
}

static void cpus_describe(struct perf_event_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->size = sizeof(*attr);
	attr->type = PERF_TYPE_BREAKPOINT;
	attr->bp_type = HW_BREAKPOINT_RW;
	attr->bp_len = sizeof(uint64_t);
	attr->bp_addr = RACE_GATE_AT; /* any will do: they are moved before they are enabled */
	attr->sample_period = 1;
	attr->disabled = 1;
	attr->exclude_kernel = 1;
	attr->exclude_hv = 1;
}

/* Opened on all CPUs, because a thread may move to any of them. */
static int open_events(struct race_cpus *cpus, enum race_cpu_event which, int program,
		       struct race_settings *settings)
{
	struct perf_event_attr attr = settings->cpu_attr;
	int err = 0;

	if (which == RACE_CPU_BREAK)
		attr.bp_type = HW_BREAKPOINT_X;
	for (uint32_t cpu = 0; !err && cpu < cpus->count; cpu++) {
		int fd = race_give_program(sys_perf_event_open(&attr, -1, (int)cpu, -1,
							       PERF_FLAG_FD_CLOEXEC),
					   program);

		if (fd < 0)
			return fd;
		cpus->fds[which][cpu] = fd;
		settings->cpu_fds[which][cpu] = fd;
		err = sys_ioctl(fd, PERF_EVENT_IOC_ID, (uintptr_t)&settings->cpu_ids[which][cpu]);
	}
	return err;
}

static int open_all(struct race_cpus *cpus, const struct race_maps *maps,
		    struct race_settings *settings)
{
	cpus->traps_fd = ebpf_map_create(BPF_MAP_TYPE_ARRAY, 4, sizeof(struct race_traps), 1,
					 BPF_F_MMAPABLE);
	if (cpus->traps_fd < 0)
		return cpus->traps_fd;
	settings->traps_fd = cpus->traps_fd;
	cpus_describe(&settings->cpu_attr);
	for (int which = 0; which < RACE_CPU_EVENTS; which++) {
		int program = cpus_load((enum race_cpu_event)which, maps, cpus->traps_fd);
		int err = program < 0 ?
				  program :
				  open_events(cpus, (enum race_cpu_event)which, program, settings);

		if (program >= 0)
			sys_close(program); /* the events keep it */
		if (err)
			return err;
	}
	return 0;
}

static pthread_t preparing;
static bool is_preparing;
static int claim_fd = -1;

/*
 * Only one search on a machine has events of the CPUs, so that two registers of each
 * thread stay free. Later searches have their events in the threads. The socket name goes
 * away with its owner.
 */
static bool claim(void)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX,
				    .sun_path = "\0trapline race: events of the CPUs" };

	claim_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (claim_fd >= 0 && bind(claim_fd, (const struct sockaddr *)&name, sizeof(name))) {
		close(claim_fd);
		claim_fd = -1;
	}
	return claim_fd >= 0;
}

static void *cpus_prepare(void *arg)
{
	struct perf_event_attr attr;
	(void)arg;

	cpus_describe(&attr);
	int fd = sys_perf_event_open(&attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd >= 0)
		sys_close(fd);
	return NULL;
}

/* Asked of a clock: a breakpoint waits for the CPUs before it is refused. */
static bool may_open(void)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.disabled = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	int fd = sys_perf_event_open(&attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd >= 0)
		sys_close(fd);
	return fd >= 0;
}

void race_cpus_prepare(void)
{
	if (may_open() && claim())
		is_preparing = !pthread_create(&preparing, NULL, cpus_prepare, NULL);
}

static void end_preparing(void)
{
	if (is_preparing)
		pthread_join(preparing, NULL);
	is_preparing = false;
}

int race_cpus_open(struct race_cpus *cpus, const struct race_maps *maps,
		   struct race_settings *settings)
{
	int there = get_nprocs_conf();
	int err = claim_fd < 0 || there > (int)RACE_CPUS || there != get_nprocs() ? -EBUSY : 0;

	end_preparing();
	cpus->count = err ? 0 : (uint32_t)there;
	cpus->traps_fd = -1;
	memset(cpus->fds, -1, sizeof(cpus->fds));
	if (!err)
		err = open_all(cpus, maps, settings);
	if (err)
		race_cpus_close(cpus);
	settings->cpu_count = cpus->count;
	return err;
}

/*
 * The owner was killed during a stall: other processes that use the same address would
 * trap for nothing.
 */
static void free_if_left(const struct race_cpus *cpus, struct race_region *region, int which)
{
	struct race_cpu_owner *owner = &region->cpu_owners[which];
	uint64_t pid = atomic_get(&owner->pid);

	if (!pid || race_is_process((pid_t)pid))
		return;
	/*
	 * trapline becomes the owner, so that no process opens the event while it is
	 * closed.
	 */
	if (!atomic_cas(&owner->pid, &pid, (uint64_t)region->share.observer))
		return;
	for (uint32_t cpu = 0; cpu < cpus->count; cpu++)
		sys_ioctl(cpus->fds[which][cpu], PERF_EVENT_IOC_DISABLE, 0);
	atomic_set(&owner->pid, (uint64_t)0);
}

void race_cpus_look(const struct race_cpus *cpus, struct race_region *region)
{
	if (!cpus->count)
		return;
	if (get_nprocs() != (int)cpus->count)
		atomic_set(&region->cpus_changed, (uint64_t)1);
	for (int which = 0; which < RACE_CPU_EVENTS; which++)
		free_if_left(cpus, region, which);
}

void race_cpus_close(struct race_cpus *cpus)
{
	end_preparing();
	for (int which = 0; which < RACE_CPU_EVENTS; which++)
		for (uint32_t cpu = 0; cpu < cpus->count; cpu++)
			if (cpus->fds[which][cpu] >= 0)
				sys_close(cpus->fds[which][cpu]);
	if (cpus->traps_fd >= 0)
		sys_close(cpus->traps_fd);
	cpus->traps_fd = -1;
	cpus->count = 0;
	if (claim_fd >= 0)
		close(claim_fd);
	claim_fd = -1;
}
