/* SPDX-License-Identifier: MIT */
/* outside_emit.c - see outside_emit.h. */
#include "outside/outside_emit.h"

#include "event/arch_regs.h"

void outside_emit_end(struct ebpf *p)
{
	ebpf_mov_imm(p, R0, 0);
	ebpf_exit(p);
}

void outside_emit_count(struct ebpf *p, enum outside_count which)
{
	ebpf_mov_imm(p, R1, 1);
	ebpf_atomic(p, BPF_ADD, SHARED, COUNT_AT(which), R1);
}

void outside_emit_end_if(struct ebpf *p, int op, int dst, int32_t imm, enum outside_count which)
{
	uint32_t ends = ebpf_jump_imm(p, op, dst, imm);
	uint32_t goes_on = ebpf_jump_imm(p, BPF_JA, 0, 0);

	ebpf_land(p, ends);
	outside_emit_count(p, which);
	outside_emit_end(p);
	ebpf_land(p, goes_on);
}

void outside_emit_process(struct ebpf *p, const struct outside_maps *maps)
{
	ebpf_current_ids(p, &maps->ids, AT_IDS);
	ebpf_store(p, BPF_DW, R10, AT_IDS, R0);
	ebpf_alu_imm(p, BPF_RSH, R0, 32);
	uint32_t is_ours = ebpf_jump_imm(p, BPF_JEQ, R0, maps->inner_pid);
	outside_emit_end(p);
	ebpf_land(p, is_ours);
}

void outside_emit_note(struct ebpf *p, const struct outside_maps *maps, int may_create)
{
	ebpf_call(p, BPF_FUNC_get_current_task_btf);
	ebpf_load_map(p, R1, maps->notes_fd);
	ebpf_mov(p, R2, R0);
	ebpf_mov_imm(p, R3, 0);
	ebpf_mov_imm(p, R4, may_create ? BPF_LOCAL_STORAGE_GET_F_CREATE : 0);
	ebpf_call(p, BPF_FUNC_task_storage_get);
}

void outside_emit_exchange(struct ebpf *p, enum outside_state from, enum outside_state to)
{
	ebpf_mov_imm(p, R0, (int32_t)from);
	ebpf_mov_imm(p, R1, (int32_t)to);
	ebpf_atomic(p, BPF_CMPXCHG, SLOT, SLOT_AT(state), R1);
}

void outside_emit_wake(struct ebpf *p, const struct outside_maps *maps)
{
	ebpf_load_map(p, R1, maps->ring_fd);
	ebpf_mov(p, R2, R10);
	ebpf_alu_imm(p, BPF_ADD, R2, AT_WORD);
	ebpf_mov_imm(p, R3, 8);
	ebpf_mov_imm(p, R4, BPF_RB_FORCE_WAKEUP);
	ebpf_call(p, BPF_FUNC_ringbuf_output);
}

uint32_t outside_emit_value(struct ebpf *p)
{
	ebpf_mov(p, R1, R10);
	ebpf_alu_imm(p, BPF_ADD, R1, AT_WORD);
	ebpf_mov_imm(p, R2, 8);
	ebpf_load_mem(p, BPF_DW, R3, SLOT, SLOT_AT(part));
	ebpf_alu_imm(p, BPF_AND, R3, -8);
	ebpf_call(p, BPF_FUNC_probe_read_user);
	uint32_t unknown = ebpf_jump_imm(p, BPF_JNE, R0, 0);
	ebpf_load_mem(p, BPF_DW, R0, R10, AT_WORD);
	ebpf_load_mem(p, BPF_DW, R1, SLOT, SLOT_AT(part));
	ebpf_alu_imm(p, BPF_AND, R1, 7);
	ebpf_alu_imm(p, BPF_LSH, R1, 3);
	ebpf_alu(p, BPF_RSH, R0, R1);
	ebpf_load_mem(p, BPF_DW, R2, SLOT, SLOT_AT(part_len));
	ebpf_alu_imm(p, BPF_LSH, R2, 3);
	ebpf_mov_imm(p, R1, 64);
	ebpf_alu(p, BPF_SUB, R1, R2);
	ebpf_alu_imm(p, BPF_AND, R1, 63);
	ebpf_alu(p, BPF_LSH, R0, R1);
	ebpf_alu(p, BPF_RSH, R0, R1);
	return unknown;
}

/* ---- a side ---- */

static void emit_copy_chunk(struct ebpf *p, int side, uint32_t at)
{
	ebpf_mov(p, R1, side);
	ebpf_alu_imm(p, BPF_ADD, R1, (int32_t)(offsetof(struct outside_side, stack) + at));
	ebpf_mov_imm(p, R2, RECORD_STACK_CHUNK);
	ebpf_load_mem(p, BPF_DW, R3, R10, AT_STACK);
	ebpf_alu_imm(p, BPF_ADD, R3, (int32_t)at);
	ebpf_call(p, BPF_FUNC_probe_read_user);
}

/* Aligned chunks, so that none lies in two pages, until one is not there. */
static void emit_side_stack(struct ebpf *p, int side)
{
	uint32_t ends[RECORD_STACK_MAX / RECORD_STACK_CHUNK];
	uint32_t n = 0;

	ebpf_load_mem(p, BPF_DW, R1, CONTEXT, arch_bpf_regs[ARCH_REG_SP]);
	ebpf_alu_imm(p, BPF_AND, R1, -(int32_t)RECORD_STACK_CHUNK);
	ebpf_store(p, BPF_DW, R10, AT_STACK, R1);
	ebpf_store(p, BPF_DW, side, SIDE_AT(stack_at), R1);
	ebpf_store_imm(p, BPF_DW, side, SIDE_AT(stack_len), 0);
	for (uint32_t at = 0; at < RECORD_STACK_MAX; at += RECORD_STACK_CHUNK) {
		emit_copy_chunk(p, side, at);
		ends[n++] = ebpf_jump_imm(p, BPF_JNE, R0, 0);
		ebpf_store_imm(p, BPF_DW, side, SIDE_AT(stack_len),
			       (int32_t)(at + RECORD_STACK_CHUNK));
	}
	while (n--)
		ebpf_land(p, ends[n]);
}

void outside_emit_side(struct ebpf *p, int side)
{
	ebpf_call(p, BPF_FUNC_ktime_get_ns);
	ebpf_store(p, BPF_DW, side, SIDE_AT(time_ns), R0);
	ebpf_load_mem(p, BPF_DW, R1, R10, AT_IDS);
	ebpf_store(p, BPF_DW, side, SIDE_AT(pid_tid), R1);
	ebpf_mov(p, R1, side);
	ebpf_alu_imm(p, BPF_ADD, R1, SIDE_AT(thread));
	ebpf_mov_imm(p, R2, 16);
	ebpf_call(p, BPF_FUNC_get_current_comm);
	for (int i = 0; i < RECORD_REGS; i++) {
		ebpf_load_mem(p, BPF_DW, R1, CONTEXT, arch_bpf_regs[i]);
		ebpf_store(p, BPF_DW, side, (int16_t)(SIDE_AT(regs) + 8 * i), R1);
	}
	ebpf_load_mem(p, BPF_DW, R1, CONTEXT, ARCH_PT(eflags));
	ebpf_store(p, BPF_DW, side, SIDE_AT(flags), R1);
	emit_side_stack(p, side);
}

void outside_emit_side_ends(struct ebpf *p, int side)
{
	ebpf_mov_imm(p, R1, 1);
	ebpf_mov_imm(p, R0, 0);
	ebpf_atomic(p, BPF_XCHG, side, SIDE_AT(is_whole), R1);
}
