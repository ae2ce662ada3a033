/* SPDX-License-Identifier: MIT */
/*
 * program_kernel.c - hits made by the kernel for a thread, such as read(2) into the word.
 *
 * The kernel copies by `rep movsb` or in a loop, and each step that touches the word traps. All but
 * the last are rejected. The registers show where a copy is: how much is left, and whether its next
 * step is still in the word. So nothing need be remembered from one trap to the next, and two
 * system calls, or two threads, can never be taken for one. A loop that is not known here gives a
 * hit for each of its stores.
 */
#include "event/bpf/program_kernel.h"
#include "event/bpf/program_frame.h"
#include "event/bpf/program_load.h"

#include "event/arch_regs.h"
#include "record/layout.h"

int program_sees_kernel(const struct trapline_event *ev)
{
	return ARCH_KERNEL_HITS && ev->flags & TRAPLINE_KERNEL && event_is_data(ev);
}

int program_keeps_values(const struct trapline_event *ev)
{
	return ARCH_KERNEL_HITS && ev->access == TRAPLINE_WRITE && !ev->callback &&
	       !(ev->flags & (TRAPLINE_KERNEL | TRAPLINE_NO_VALUES));
}

#if ARCH_KERNEL_HITS

#define TASK R8 /* struct program_task, until it is CONTEXT */
#define FRAME_CODE FRAME_CONDITION
#define CODE_BYTES 8
#define USER_AT(member) \
	((int16_t)(offsetof(struct program_task, member) - offsetof(struct program_task, user)))

/*
 * What is at the pc of a trap, when there is more to come. Of a string instruction that is the
 * instruction itself, with registers already at the next step; of a loop what follows the store.
 */
static const struct copy_code {
	uint64_t code;
	uint64_t mask;
	int32_t step; /* bytes of the step that trapped, and not yet in the registers; 0: string */
} copies[] = {
	{ 0xa4f3, 0xffff, 0 },			       /* rep movsb */
	{ 0xaaf3, 0xffff, 0 },			       /* rep stosb */
	{ 0xa5f3, 0xffff, 0 },			       /* rep movsl */
	{ 0xabf3, 0xffff, 0 },			       /* rep stosl */
	{ 0xa548f3, 0xffffff, 0 },		       /* rep movsq */
	{ 0xab48f3, 0xffffff, 0 },		       /* rep stosq */
	{ 0x48c6ff48c7ff48, 0xffffffffffffff, 1 },     /* inc rdi, inc rsi, dec rcx */
	{ 0x48c7ff48c6ff48, 0xffffffffffffff, 1 },     /* inc rsi, inc rdi, dec rcx */
	{ 0xffc7ff48c6ff48, 0xffffffffffffff, 1 },     /* inc rsi, inc rdi, dec ecx */
	{ 0xc9ff48c7ff48, 0xffffffffffff, 1 },	       /* inc rdi, dec rcx */
	{ 0x08c6834808c78348, 0xffffffffffffffff, 8 }, /* add $8 to rdi, rsi */
	{ 0x08c7834808c68348, 0xffffffffffffffff, 8 }, /* add $8 to rsi, rdi */
	{ 0xff48c7ff480788, 0xffffffffffffff, 1 },     /* movb al, (rdi); inc rdi */
};

/* Jumps when the pointer, after its step, is still inside the part; from there on is more. */
static uint32_t emit_jump_if_inside(struct ebpf *p, int reg, int32_t step)
{
	ebpf_load_mem(p, BPF_DW, R1, CONTEXT, arch_bpf_regs[reg]);
	ebpf_load_mem(p, BPF_DW, R2, CONTEXT, PROGRAM_DATA_ADDR_AT);
	ebpf_alu_imm(p, BPF_ADD, R1, step);
	ebpf_alu(p, BPF_SUB, R1, R2);
	ebpf_load_mem(p, BPF_DW, R2, R10, FRAME_LEN);
	return ebpf_jump(p, BPF_JLT, R1, R2);
}

static void emit_reject_partial(struct ebpf *p, const struct copy_code *copy)
{
	ebpf_load_mem(p, BPF_DW, R1, R10, FRAME_CODE);
	ebpf_load_imm64(p, R2, copy->mask);
	ebpf_alu(p, BPF_AND, R1, R2);
	ebpf_load_imm64(p, R2, copy->code);
	uint32_t other = ebpf_jump(p, BPF_JNE, R1, R2);
	ebpf_load_mem(p, BPF_DW, R1, CONTEXT, arch_bpf_regs[ARCH_REG_COUNT]);
	uint32_t last = ebpf_jump_imm(p, BPF_JLE, R1, copy->step);
	uint32_t writes = emit_jump_if_inside(p, ARCH_REG_TO, copy->step);
	uint32_t reads = emit_jump_if_inside(p, ARCH_REG_FROM, copy->step);
	uint32_t outside = ebpf_jump_imm(p, BPF_JA, 0, 0);

	ebpf_land(p, writes);
	ebpf_land(p, reads);
	program_reject(p, CONTROL_AT(rejected_partial));
	ebpf_land(p, outside);
	ebpf_land(p, last);
	ebpf_land(p, other);
}

void program_end_at_piece(struct ebpf *p)
{
	ebpf_mov(p, R1, R10);
	ebpf_alu_imm(p, BPF_ADD, R1, FRAME_CODE);
	ebpf_mov_imm(p, R2, CODE_BYTES);
	ebpf_load_mem(p, BPF_DW, R3, CONTEXT, arch_bpf_regs[ARCH_REG_PC]);
	ebpf_call(p, BPF_FUNC_probe_read_kernel); /* zeroes what it cannot read */
	for (size_t i = 0; i < sizeof(copies) / sizeof(copies[0]); i++)
		emit_reject_partial(p, &copies[i]);
}

#define REGS_BYTES ((int16_t)sizeof(((struct bpf_perf_event_data *)0)->regs))

static void emit_copy_context(struct ebpf *p)
{
	const int16_t to = offsetof(struct program_task, user);

	for (int16_t at = 0; at < REGS_BYTES; at += 8) {
		ebpf_load_mem(p, BPF_DW, R1, CONTEXT, at);
		ebpf_store(p, BPF_DW, TASK, (int16_t)(to + at), R1);
	}
}

/* What the thread was doing when it entered the kernel. */
static void emit_take_entry(struct ebpf *p)
{
	ebpf_call(p, BPF_FUNC_get_current_task_btf);
	ebpf_mov(p, R1, R0);
	ebpf_call(p, BPF_FUNC_task_pt_regs);
	ebpf_mov(p, R3, R0);
	ebpf_mov(p, R1, TASK);
	ebpf_alu_imm(p, BPF_ADD, R1, offsetof(struct program_task, user));
	ebpf_mov_imm(p, R2, REGS_BYTES);
	ebpf_call(p, BPF_FUNC_probe_read_kernel);
	ebpf_load_mem(p, BPF_DW, R1, CONTEXT, arch_bpf_regs[ARCH_REG_PC]);
	ebpf_store(p, BPF_DW, TASK, offsetof(struct program_task, kernel_ip), R1);
	ebpf_load_mem(p, BPF_DW, R1, TASK, offsetof(struct program_task, user) + ARCH_BPF_SYSCALL);
	ebpf_store(p, BPF_DW, TASK, offsetof(struct program_task, syscall), R1);
}

static void emit_take_task(struct ebpf *p, const struct trapline_event *ev)
{
	ebpf_call(p, BPF_FUNC_get_current_task_btf);
	ebpf_load_map(p, R1, ev->storage_fd);
	ebpf_mov(p, R2, R0);
	ebpf_mov_imm(p, R3, 0);
	ebpf_mov_imm(p, R4, BPF_LOCAL_STORAGE_GET_F_CREATE);
	ebpf_call(p, BPF_FUNC_task_storage_get);
	uint32_t found = ebpf_jump_imm(p, BPF_JNE, R0, 0);

	program_reject(p, CONTROL_AT(lost_full)); /* no memory */
	ebpf_land(p, found);
	ebpf_mov(p, TASK, R0);
}

uint32_t program_jump_by_thread(struct ebpf *p)
{
	ebpf_load_mem(p, BPF_DW, R1, CONTEXT, ARCH_BPF_MODE);
	ebpf_alu_imm(p, BPF_AND, R1, ARCH_MODE_USER);
	return ebpf_jump_imm(p, BPF_JNE, R1, 0);
}

void program_kernel_hit(struct ebpf *p, const struct trapline_event *ev)
{
	emit_take_task(p, ev);
	uint32_t by_thread = program_jump_by_thread(p);

	program_end_at_piece(p);
	emit_take_entry(p);
	uint32_t known = ebpf_jump_imm(p, BPF_JA, 0, 0);

	ebpf_land(p, by_thread);
	emit_copy_context(p);
	ebpf_store_imm(p, BPF_DW, TASK, offsetof(struct program_task, kernel_ip), 0);
	ebpf_store_imm(p, BPF_DW, TASK, offsetof(struct program_task, syscall), -1);
	ebpf_land(p, known);
	ebpf_load_mem(p, BPF_DW, R1, CONTEXT, PROGRAM_DATA_ADDR_AT);
	ebpf_store(p, BPF_DW, TASK, offsetof(struct program_task, user) + PROGRAM_DATA_ADDR_AT, R1);
	ebpf_mov(p, CONTEXT, TASK);
	ebpf_alu_imm(p, BPF_ADD, CONTEXT, offsetof(struct program_task, user));
}

static void copy_fact(struct ebpf *p, int16_t to, int16_t from)
{
	ebpf_load_mem(p, BPF_DW, R1, CONTEXT, from);
	ebpf_store(p, BPF_DW, RECORD, to, R1);
}

void program_kernel_record(struct ebpf *p, const struct trapline_event *ev)
{
	const int16_t ip_at = offsetof(struct record, kernel_ip);
	const int16_t syscall_at = offsetof(struct record, syscall);

	if (program_sees_kernel(ev)) {
		copy_fact(p, ip_at, USER_AT(kernel_ip));
		copy_fact(p, syscall_at, USER_AT(syscall));
	} else {
		ebpf_store_imm(p, BPF_DW, RECORD, ip_at, 0);
		ebpf_store_imm(p, BPF_DW, RECORD, syscall_at, -1);
	}
}

#else

uint32_t program_jump_by_thread(struct ebpf *p)
{
	return ebpf_jump_imm(p, BPF_JA, 0, 0);
}

void program_end_at_piece(struct ebpf *p)
{
}

void program_kernel_hit(struct ebpf *p, const struct trapline_event *ev)
{
}

void program_kernel_record(struct ebpf *p, const struct trapline_event *ev)
{
	ebpf_store_imm(p, BPF_DW, RECORD, offsetof(struct record, kernel_ip), 0);
	ebpf_store_imm(p, BPF_DW, RECORD, offsetof(struct record, syscall), -1);
}

#endif
