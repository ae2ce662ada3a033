/* SPDX-License-Identifier: MIT */
/*
 * program_calls.c - which returns of functions are hits: those of calls that were hits.
 *
 * A call is known by its thread, its function and where its return address lies. One that never
 * returns (longjmp, the end of the thread) stays noted until its place is needed: the map drops
 * the oldest. Two calls with the same key are a function that called itself as its last act, by a
 * jump; they return at once, and are one return here.
 */
#include "event/arch_regs.h"
#include "event/program.h"

#define CALLS_MAX 65536u

struct call_key {
	uint64_t pid_tid;
	uint64_t sp; /* after the return */
	uint64_t address;
};
_Static_assert(FRAME_CALL + (int)sizeof(struct call_key) <= FRAME_CONDITION,
	       "the frame's parts");

int program_calls_open(void)
{
	return ebpf_map_create(BPF_MAP_TYPE_LRU_HASH, sizeof(struct call_key), 8,
			       CALLS_MAX, 0);
}

static void emit_key(struct ebpf *p, int32_t sp_add)
{
	ebpf_call(p, BPF_FUNC_get_current_pid_tgid);
	ebpf_store(p, BPF_DW, R10, FRAME_CALL + (int)offsetof(struct call_key, pid_tid),
		   R0);
	ebpf_load_mem(p, BPF_DW, R1, CONTEXT, arch_bpf_regs[ARCH_REG_SP]);
	ebpf_alu_imm(p, BPF_ADD, R1, sp_add);
	ebpf_store(p, BPF_DW, R10, FRAME_CALL + (int)offsetof(struct call_key, sp), R1);
	ebpf_mov(p, R1, CONTEXT);
	ebpf_call(p, BPF_FUNC_get_attach_cookie);
	ebpf_store(p, BPF_DW, R10, FRAME_CALL + (int)offsetof(struct call_key, address),
		   R0);
}

static void emit_map_and_key(struct ebpf *p, const struct trapline_event *ev)
{
	ebpf_load_map(p, R1, ev->links.calls_fd);
	ebpf_mov(p, R2, R10);
	ebpf_alu_imm(p, BPF_ADD, R2, FRAME_CALL);
}

void program_note_call(struct ebpf *p, const struct trapline_event *ev)
{
	emit_key(p, ARCH_CALLER_IN_MEMORY ? 8 : 0);
	emit_map_and_key(p, ev);
	/* The value says nothing: some bytes of the key. */
	ebpf_mov(p, R3, R2);
	ebpf_mov_imm(p, R4, BPF_ANY);
	ebpf_call(p, BPF_FUNC_map_update_elem);
}

void program_end_unless_call_passed(struct ebpf *p, const struct trapline_event *ev)
{
	emit_key(p, 0);
	emit_map_and_key(p, ev);
	/* Its answer tells whether it was there. */
	ebpf_call(p, BPF_FUNC_map_delete_elem);
	uint32_t passed = ebpf_jump_imm(p, BPF_JEQ, R0, 0);
	ebpf_mov_imm(p, R0, 0);
	ebpf_exit(p);
	ebpf_land(p, passed);
}
