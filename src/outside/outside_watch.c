/* SPDX-License-Identifier: MIT */
/* outside_watch.c - the BPF program at the watched bytes. It runs in any thread of the machine. */
#include "event/arch_regs.h"
#include "outside/outside_emit.h"
#include "outside/outside_program.h"

#include <errno.h>
#include <linux/bpf_perf_event.h>
#include <stdlib.h>

/* A runtime makes accesses that mean nothing here, and waits by others. */
static void emit_end_if_excluded(struct ebpf *p)
{
	uint32_t ends[OUTSIDE_RANGES];
	uint32_t n = 0;

	ebpf_load_mem(p, BPF_DW, R1, CONTEXT, arch_bpf_regs[ARCH_REG_PC]);
	ebpf_alu_imm(p, BPF_SUB, R1, 1);
	ebpf_load_mem(p, BPF_DW, R2, SHARED, SHARED_AT(range_count));
	for (uint32_t i = 0; i < OUTSIDE_RANGES; i++) {
		ends[n++] = ebpf_jump_imm(p, BPF_JLE, R2, (int32_t)i);
		ebpf_load_mem(p, BPF_DW, R3, SHARED, (int16_t)(SHARED_AT(ranges) + 16 * i));
		uint32_t is_below = ebpf_jump(p, BPF_JLT, R1, R3);
		ebpf_load_mem(p, BPF_DW, R3, SHARED, (int16_t)(SHARED_AT(ranges) + 16 * i + 8));
		uint32_t is_above = ebpf_jump(p, BPF_JGE, R1, R3);
		outside_emit_count(p, OUTSIDE_COUNT_WATCH_EXCLUDED);
		outside_emit_end(p);
		ebpf_land(p, is_below);
		ebpf_land(p, is_above);
	}
	while (n--)
		ebpf_land(p, ends[n]);
}

/* Beside a read only a write counts. It is seen by the value, as race_cpu_events.c has it. */
static void emit_end_if_read_beside_read(struct ebpf *p)
{
	uint32_t unknown = outside_emit_value(p);

	ebpf_store(p, BPF_DW, R10, AT_WORD, R0);
	ebpf_load_mem(p, BPF_DW, R1, SLOT, SLOT_AT(writes));
	uint32_t is_write = ebpf_jump_imm(p, BPF_JNE, R1, 0);
	ebpf_load_mem(p, BPF_DW, R1, SLOT, SLOT_AT(before));
	ebpf_alu(p, BPF_SUB, R0, R1);
	outside_emit_end_if(p, BPF_JEQ, R0, 0, OUTSIDE_COUNT_WATCH_READS);
	ebpf_land(p, is_write);
	ebpf_land(p, unknown);
}

static void emit_watch(struct ebpf *p, const struct outside_maps *maps)
{
	ebpf_mov(p, CONTEXT, R1);
	outside_emit_process(p, maps);
	ebpf_load_map_value(p, SHARED, maps->shared_fd, 0);
	ebpf_load_map_value(p, SLOT, maps->shared_fd, (uint32_t)SHARED_AT(slot));
	outside_emit_count(p, OUTSIDE_COUNT_WATCH_HITS);
	ebpf_load_mem(p, BPF_DW, R1, SLOT, SLOT_AT(state));
	outside_emit_end_if(p, BPF_JNE, R1, OUTSIDE_OPEN, OUTSIDE_COUNT_WATCH_LATE);
	ebpf_load_mem(p, BPF_DW, R1, SLOT, SLOT_AT(part));
	ebpf_load_mem(p, BPF_DW, R2, CONTEXT, offsetof(struct bpf_perf_event_data, addr));
	ebpf_alu(p, BPF_SUB, R1, R2);
	outside_emit_end_if(p, BPF_JNE, R1, 0, OUTSIDE_COUNT_WATCH_LATE);
	ebpf_load_mem(p, BPF_DW, R1, SLOT, SLOT_AT(ids));
	ebpf_load_mem(p, BPF_DW, R2, R10, AT_IDS);
	ebpf_alu(p, BPF_SUB, R1, R2);
	outside_emit_end_if(p, BPF_JEQ, R1, 0, OUTSIDE_COUNT_WATCH_OWN);
	emit_end_if_excluded(p);
	emit_end_if_read_beside_read(p);
	outside_emit_exchange(p, OUTSIDE_OPEN, OUTSIDE_HIT);
	outside_emit_end_if(p, BPF_JNE, R0, OUTSIDE_OPEN, OUTSIDE_COUNT_WATCH_LATE);
	ebpf_mov(p, R7, SLOT);
	ebpf_alu_imm(p, BPF_ADD, R7, (int32_t)offsetof(struct outside_slot, second));
	ebpf_load_mem(p, BPF_DW, R1, R10, AT_WORD);
	ebpf_store(p, BPF_DW, R7, SIDE_AT(value), R1);
	ebpf_store_imm(p, BPF_DW, R7, SIDE_AT(note), 0);
	outside_emit_note(p, maps, 0);
	uint32_t no_note = ebpf_jump_imm(p, BPF_JEQ, R0, 0);
	ebpf_load_mem(p, BPF_DW, R1, R0, 0);
	ebpf_store(p, BPF_DW, R7, SIDE_AT(note), R1);
	ebpf_land(p, no_note);
	outside_emit_side(p, R7);
	outside_emit_side_ends(p, R7);
	outside_emit_end(p);
}

int outside_load_watch(const struct outside_maps *maps, char *log, uint32_t log_size)
{
	struct ebpf *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	emit_watch(p, maps);
	int fd = ebpf_load(p, BPF_PROG_TYPE_PERF_EVENT, log, log_size);
	free(p);
	return fd;
}
