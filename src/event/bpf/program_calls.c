/* SPDX-License-Identifier: MIT */
/*
 * program_calls.c - which returns of functions are hits: those of calls that were hits.
 *
 * A call is known by its thread, its function and where its return address lies: a return
 * instruction that finds the address there ends that call, and no other does. A call that was left
 * in another way (an exception, longjmp, the end of the thread) stays recorded until its row is
 * needed. The map drops the oldest, and the next call of the function at the same stack address
 * takes it out. A function that is entered by a jump of the other returns for both; for such a
 * return the address must be that of the call, too. Two calls with the same key are a function that
 * called itself as its last act, by a jump; they return at once, and are one return here.
 */
#include "event/bpf/program_calls.h"
#include "event/arch_regs.h"
#include "event/bpf/program_frame.h"
#include "event/bpf/program_load.h"

#define CALLS_MAX 65536u
#define CALL_BYTES 16u /* FRAME_RETURN and FRAME_ARGUMENT */

struct call_key {
	uint64_t pid_tid;
	uint64_t sp; /* at the first instruction and at the return */
	uint64_t address;
};
_Static_assert(FRAME_CALL + (int)sizeof(struct call_key) <= FRAME_CONDITION, "the frame's parts");

int program_calls_open(void)
{
	return ebpf_map_create(BPF_MAP_TYPE_LRU_HASH, sizeof(struct call_key), CALL_BYTES,
			       CALLS_MAX, 0);
}

/* A thread is in one system call at a time. */
static void emit_key(struct ebpf *p, const struct trapline_event *ev)
{
	const int is_tracepoint = ev->mechanism == TRAPLINE_BY_TRACEPOINT;

	ebpf_call(p, BPF_FUNC_get_current_pid_tgid);
	ebpf_store(p, BPF_DW, R10, FRAME_CALL + (int)offsetof(struct call_key, pid_tid), R0);
	ebpf_load_mem(p, BPF_DW, R1, CONTEXT, arch_bpf_regs[ARCH_REG_SP]);
	ebpf_store(p, BPF_DW, R10, FRAME_CALL + (int)offsetof(struct call_key, sp), R1);
	if (is_tracepoint) {
		ebpf_load_mem(p, BPF_DW, R0, R10, FRAME_SYSCALL);
	} else {
		ebpf_mov(p, R1, CONTEXT);
		ebpf_call(p, BPF_FUNC_get_attach_cookie);
	}
	ebpf_store(p, BPF_DW, R10, FRAME_CALL + (int)offsetof(struct call_key, address), R0);
}

static void emit_map_and_key(struct ebpf *p, const struct trapline_event *ev)
{
	ebpf_load_map(p, R1, ev->links.calls_fd);
	ebpf_mov(p, R2, R10);
	ebpf_alu_imm(p, BPF_ADD, R2, FRAME_CALL);
}

/* FRAME_RETURN: as it is now. 0, which no call has, where it cannot be read; or a system call. */
static void emit_return_address(struct ebpf *p, const struct trapline_event *ev)
{
	struct arch_caller caller = arch_caller(1);

	if (ev->mechanism == TRAPLINE_BY_TRACEPOINT) {
		ebpf_store_imm(p, BPF_DW, R10, FRAME_RETURN, 0);
		return;
	}
	if (!caller.in_memory) {
		ebpf_load_mem(p, BPF_DW, R1, CONTEXT, arch_bpf_regs[caller.reg]);
		ebpf_store(p, BPF_DW, R10, FRAME_RETURN, R1);
		return;
	}
	ebpf_mov(p, R1, R10);
	ebpf_alu_imm(p, BPF_ADD, R1, FRAME_RETURN);
	ebpf_mov_imm(p, R2, 8);
	ebpf_load_mem(p, BPF_DW, R3, CONTEXT, arch_bpf_regs[caller.reg]);
	ebpf_call(p, BPF_FUNC_probe_read_user); /* zeroes what it cannot read */
}

void program_forget_call(struct ebpf *p, const struct trapline_event *ev)
{
	emit_key(p, ev);
	emit_map_and_key(p, ev);
	ebpf_call(p, BPF_FUNC_map_delete_elem);
}

void program_note_call(struct ebpf *p, const struct trapline_event *ev)
{
	emit_return_address(p, ev);
	ebpf_load_mem(p, BPF_DW, R1, CONTEXT, arch_bpf_regs[ARCH_REG_ARGUMENT]);
	ebpf_store(p, BPF_DW, R10, FRAME_ARGUMENT, R1);
	emit_key(p, ev);
	emit_map_and_key(p, ev);
	ebpf_mov(p, R3, R10);
	ebpf_alu_imm(p, BPF_ADD, R3, FRAME_RETURN);
	ebpf_mov_imm(p, R4, BPF_ANY);
	ebpf_call(p, BPF_FUNC_map_update_elem);
}

void program_end_unless_call_passed(struct ebpf *p, const struct trapline_event *ev)
{
	emit_key(p, ev);
	emit_map_and_key(p, ev);
	ebpf_call(p, BPF_FUNC_map_lookup_elem);
	uint32_t unknown = ebpf_jump_imm(p, BPF_JEQ, R0, 0);

	ebpf_load_mem(p, BPF_DW, R8, R0, 0);
	ebpf_load_mem(p, BPF_DW, R1, R0, 8);
	ebpf_store(p, BPF_DW, R10, FRAME_ARGUMENT, R1);
	emit_map_and_key(p, ev);
	ebpf_call(p, BPF_FUNC_map_delete_elem);
	emit_return_address(p, ev);
	ebpf_load_mem(p, BPF_DW, R1, R10, FRAME_RETURN);
	uint32_t passed = ebpf_jump(p, BPF_JEQ, R1, R8);

	ebpf_land(p, unknown);
	ebpf_mov_imm(p, R0, 0);
	ebpf_exit(p);
	ebpf_land(p, passed);
}
