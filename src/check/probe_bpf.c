/* SPDX-License-Identifier: MIT */
/* probe_bpf.c - probes of BPF programs on a data watch: conditions, vetoes, storage,
 * rings. */
#include "check/probe_bpf.h"
#include "check/probe.h"
#include "check/probe_util.h"

#include <errno.h>
#include <linux/bpf.h>
#include <linux/hw_breakpoint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/ebpf.h"
#include "base/sys.h"
#include "check/probe_arch.h"

/* The value that makes the condition true. */
#define TRUE_VALUE 1000

/* A program of 128 KB is too large for a stack that a caller may have chosen. */
static struct ebpf program;

/* R0 of an array map's value is counted up; the map's descriptor is needed twice. */
static void emit_count(struct ebpf *p, int map)
{
	ebpf_load_map_value(p, R1, map, 0);
	ebpf_mov_imm(p, R2, 1);
	ebpf_atomic(p, BPF_ADD, R1, 0, R2);
}

/* R7 = the watched word, by a helper that does not trap. */
static void emit_read_word(struct ebpf *p)
{
	ebpf_store_imm(p, BPF_DW, R10, -8, 0);
	ebpf_mov(p, R1, R10);
	ebpf_alu_imm(p, BPF_ADD, R1, -8);
	ebpf_mov_imm(p, R2, 8);
	ebpf_load_imm64(p, R3, (uintptr_t)&probe_word);
	ebpf_call(p, BPF_FUNC_probe_read_user);
	ebpf_load_mem(p, BPF_DW, R7, R10, -8);
}

static void emit_return(struct ebpf *p, int verdict)
{
	ebpf_mov_imm(p, R0, verdict);
	ebpf_exit(p);
}

static int map_value(int map)
{
	const uint32_t key = 0;
	uint64_t value = 0;

	return ebpf_map_read(map, &key, &value) ? -1 : (int)value;
}

/* Loads the program and arms a watch with it; with_signal as in probe_attr(). fd or
 * -errno. */
static int watch_with_program(struct probe_result *r, int with_signal)
{
	struct perf_event_attr attr;
	int prog = ebpf_load(&program, BPF_PROG_TYPE_PERF_EVENT, NULL, 0);

	if (prog < 0) {
		probe_bpf_refused(r, prog, "loading a program for perf events");
		return prog;
	}
	probe_catch();
	probe_attr(&attr, &probe_word, HW_BREAKPOINT_W, 8);
	attr.sigtrap = (unsigned int)with_signal & 1;
	attr.disabled = 1;
	int fd = probe_open(&attr, 0, -1);
	if (fd < 0) {
		probe_refused(r, fd, "opening a write watchpoint", 2);
		return fd;
	}
	int err = sys_ioctl(fd, PERF_EVENT_IOC_SET_BPF, (uintptr_t)prog);
	if (err) {
		probe_bpf_refused(r, err, "PERF_EVENT_IOC_SET_BPF on a write watchpoint");
		return err;
	}
	sys_ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	return fd;
}

/* On arm64 the program runs before the store, so the value is stored while disarmed. */
static void write_value(int fd, uint64_t value, unsigned int times)
{
	sys_ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	probe_store(&probe_word, 8, value);
	sys_ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	for (unsigned int i = 0; i < times; i++)
		probe_store(&probe_word, 8, value);
}

void probe_bpf_condition(struct probe_result *r)
{
	int runs = ebpf_map_create(BPF_MAP_TYPE_ARRAY, 4, 8, 1, 0);
	int trues = ebpf_map_create(BPF_MAP_TYPE_ARRAY, 4, 8, 1, 0);

	if (runs < 0 || trues < 0)
		return probe_bpf_refused(r, runs < 0 ? runs : trues, "creating a map");
	emit_count(&program, runs);
	emit_read_word(&program);
	uint32_t skip = ebpf_jump_imm(&program, BPF_JNE, R7, TRUE_VALUE);
	emit_count(&program, trues);
	ebpf_land(&program, skip);
	emit_return(&program, 0);
	int fd = watch_with_program(r, 0);
	if (fd < 0)
		return;
	write_value(fd, 1, PROBE_HITS - 5);
	write_value(fd, TRUE_VALUE, 5);
	int ran = map_value(runs);
	int true_runs = map_value(trues);
	probe_say(r, ran == PROBE_HITS && true_runs == 5, "use kernel 5.15 or later",
		  "%u hits: the program ran %d times and found its condition true in %d "
		  "of 5",
		  PROBE_HITS, ran, true_runs);
}

/* Return 0 stops the signal since Linux commit c4fcc7d1f415, v6.10. */
void probe_bpf_veto(struct probe_result *r)
{
	emit_read_word(&program);
	uint32_t skip = ebpf_jump_imm(&program, BPF_JEQ, R7, TRUE_VALUE);
	emit_return(&program, 0);
	ebpf_land(&program, skip);
	emit_return(&program, 1);
	int fd = watch_with_program(r, 1);
	if (fd < 0)
		return;
	write_value(fd, 1, PROBE_HITS);
	uint32_t vetoed = probe_trap.signals;
	write_value(fd, TRUE_VALUE, 5);
	uint32_t passed = probe_trap.signals - vetoed;
	probe_say(r, vetoed == 0 && passed == 5,
		  "use kernel 6.10 or later; until then conditions are evaluated in the "
		  "handler",
		  "false condition: %u signals of %u hits; true: %u of 5", vetoed, PROBE_HITS,
		  passed);
}

/* The value of task storage for this thread, or -1. */
static int storage_value(int map)
{
	uint64_t value[EBPF_TASK_BYTES / 8] = { 0 };
	const int pidfd = (int)sys2(SYS_pidfd_open, sys_getpid(), 0);

	return ebpf_map_read(map, &pidfd, value) ? -1 : (int)value[0];
}

void probe_bpf_task_storage(struct probe_result *r)
{
	int map = ebpf_task_storage_create(EBPF_TASK_BYTES);

	if (map < 0)
		return probe_bpf_refused(r, map, "creating a task storage map");
	ebpf_call(&program, BPF_FUNC_get_current_task_btf);
	ebpf_mov(&program, R2, R0);
	ebpf_load_map(&program, R1, map);
	ebpf_mov_imm(&program, R3, 0);
	ebpf_mov_imm(&program, R4, BPF_LOCAL_STORAGE_GET_F_CREATE);
	ebpf_call(&program, BPF_FUNC_task_storage_get);
	uint32_t skip = ebpf_jump_imm(&program, BPF_JEQ, R0, 0);
	ebpf_mov_imm(&program, R2, 1);
	ebpf_atomic(&program, BPF_ADD, R0, 0, R2);
	ebpf_land(&program, skip);
	emit_return(&program, 0);
	int fd = watch_with_program(r, 0);
	if (fd < 0)
		return;
	write_value(fd, 1, PROBE_HITS);
	int n = storage_value(map);
	probe_say(r, n == PROBE_HITS, "use kernel 5.15 or later, built with BTF",
		  "%u hits: %d counted in storage of the thread", PROBE_HITS, n);
}

/* One record of 8 bytes, the word's value. */
static int ring_program(int size)
{
	int map = ebpf_map_create(BPF_MAP_TYPE_RINGBUF, 0, 0, (uint32_t)size, 0);

	if (map < 0)
		return map;
	emit_read_word(&program);
	ebpf_load_map(&program, R1, map);
	ebpf_mov(&program, R2, R10);
	ebpf_alu_imm(&program, BPF_ADD, R2, -8);
	ebpf_mov_imm(&program, R3, 8);
	/* Nothing waits on it: without this flag each record would try a wake-up. */
	ebpf_mov_imm(&program, R4, BPF_RB_NO_WAKEUP);
	ebpf_call(&program, BPF_FUNC_ringbuf_output);
	emit_return(&program, 0);
	return map;
}

void probe_bpf_ringbuf(struct probe_result *r)
{
	long page = sysconf(_SC_PAGESIZE);
	int map = ring_program((int)page);

	if (map < 0)
		return probe_bpf_refused(r, map, "creating a ring buffer");
	int fd = watch_with_program(r, 0);
	if (fd < 0)
		return;
	write_value(fd, TRUE_VALUE, PROBE_HITS);
	/* The producer's page, then the data: see Documentation/bpf/ringbuf.rst. */
	const uint8_t *ring = mmap(NULL, (size_t)page * 2, PROT_READ, MAP_SHARED, map, page);
	if (ring == MAP_FAILED)
		return probe_bpf_refused(r, -errno, "mmap of the ring buffer");
	uint64_t end = __atomic_load_n((const uint64_t *)ring, __ATOMIC_ACQUIRE);
	unsigned int right = 0;
	for (uint64_t at = 0; at + 16 <= end && at + 16 <= (uint64_t)page; at += 16) {
		uint64_t value;

		memcpy(&value, ring + page + at + BPF_RINGBUF_HDR_SZ, sizeof(value));
		right += value == TRUE_VALUE;
	}
	probe_say(r, right == PROBE_HITS, "use kernel 5.8 or later",
		  "%u hits: %llu records in the ring, %u with the right value", PROBE_HITS,
		  (unsigned long long)end / 16, right);
}

static void probe_bpf_write_once(void *arg)
{
	(void)arg;
	probe_store(&probe_word, 8, 1);
}

double probe_cost_bpf_reject(void)
{
	struct probe_result ignored;

	emit_return(&program, 0);
	if (watch_with_program(&ignored, 1) < 0)
		return -1;
	probe_write_word(1);
	/* Where a program cannot veto, there is no such cost. */
	if (probe_trap.signals)
		return -1;
	return probe_median(probe_bpf_write_once, NULL, 100);
}

double probe_cost_bpf_record(void)
{
	struct probe_result ignored;
	/* Room for every record of the measurement: a full ring is cheaper. */
	int map = ring_program(1 << 20);

	if (map < 0 || watch_with_program(&ignored, 0) < 0)
		return -1;
	return probe_median(probe_bpf_write_once, NULL, 100);
}
