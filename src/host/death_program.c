/* SPDX-License-Identifier: MIT */
/*
 * death_program.c - see death_program.h.
 *
 * A thread is known by the address of its task, since its number may be given again. The
 * tracepoints give pointers of the kernel as arguments: what they lead to is copied, and a failed
 * copy ends the program.
 */
#include "host/death_program.h"

#include "base/memory.h"
#include "base/signal_bit.h"
#include "event/arch_regs.h"
#include "event/bpf/kernel_offset.h"
#include "event/bpf/program_members.h"
#include "host/death_watch.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>

enum {
	CONTEXT = R6,
	REGISTERS = R7,
	RECORD = R8,
	COPIED = R9, /* bytes of the stack */
};

/* The frame. */
enum {
	AT_KEY = PROGRAM_KEY_AT,
	AT_WORD = -16,
	AT_SENDER = -48, /* struct death_sender */
};

#define CHUNK PAGE_BYTES
/* Signals that do not end a process by default. */
#define HARMLESS                                                                                 \
	(SIGNAL_BIT(SIGCHLD) | SIGNAL_BIT(SIGCONT) | SIGNAL_BIT(SIGURG) | SIGNAL_BIT(SIGWINCH) | \
	 SIGNAL_BIT(SIGSTOP) | SIGNAL_BIT(SIGTSTP) | SIGNAL_BIT(SIGTTIN) | SIGNAL_BIT(SIGTTOU))
#define SIGNALS 64
#define CODE_AT 8 /* si_code */
#define SIGNAL_BITS 0x7f
#define AT(member) ((int16_t)offsetof(struct death_record, member))

static void emit_end(struct ebpf *p)
{
	ebpf_mov_imm(p, R0, 0);
	ebpf_exit(p);
}

static void emit_end_if(struct ebpf *p, int op, int dst, int32_t imm)
{
	uint32_t ends = ebpf_jump_imm(p, op, dst, imm);
	uint32_t goes_on = ebpf_jump_imm(p, BPF_JA, 0, 0);

	ebpf_land(p, ends);
	emit_end(p);
	ebpf_land(p, goes_on);
}

static void emit_frame_address(struct ebpf *p, int dst, int16_t at)
{
	ebpf_mov(p, dst, R10);
	ebpf_alu_imm(p, BPF_ADD, dst, at);
}

/* R3 is the address; R0: 0, or an error. */
static void emit_copy_kernel(struct ebpf *p, int16_t to, int32_t bytes)
{
	emit_frame_address(p, R1, to);
	ebpf_mov_imm(p, R2, bytes);
	ebpf_call(p, BPF_FUNC_probe_read_kernel);
}

static void emit_lookup(struct ebpf *p, int map_fd)
{
	program_map_key(p, map_fd);
	ebpf_call(p, BPF_FUNC_map_lookup_elem);
}

static void emit_update(struct ebpf *p, int map_fd, int16_t value_at)
{
	program_map_key(p, map_fd);
	emit_frame_address(p, R3, value_at);
	ebpf_mov_imm(p, R4, BPF_ANY);
	ebpf_call(p, BPF_FUNC_map_update_elem);
}

static void emit_end_unless_member(struct ebpf *p, const struct death_watch *w)
{
	program_end_unless_in(p, w->tasks_fd, w->named_fd, &w->ids);
}

/* R2 is the number of the signal, the first argument. */
static void emit_end_if_harmless(struct ebpf *p)
{
	ebpf_load_mem(p, BPF_DW, R2, CONTEXT, 0);
	ebpf_alu_imm(p, BPF_SUB, R2, 1);
	emit_end_if(p, BPF_JGE, R2, SIGNALS);
	ebpf_load_imm64(p, R1, HARMLESS);
	ebpf_alu(p, BPF_RSH, R1, R2);
	ebpf_alu_imm(p, BPF_AND, R1, 1);
	emit_end_if(p, BPF_JNE, R1, 0);
}

/* ---- a signal that is delivered ---- */

/* The handler is the first member of its struct k_sigaction; 0 is SIG_DFL. */
static void emit_end_unless_default(struct ebpf *p)
{
	ebpf_load_mem(p, BPF_DW, R3, CONTEXT, 16);
	emit_copy_kernel(p, AT_WORD, 8);
	emit_end_if(p, BPF_JNE, R0, 0);
	ebpf_load_mem(p, BPF_DW, R1, R10, AT_WORD);
	emit_end_if(p, BPF_JNE, R1, 0);
}

static void emit_count(struct ebpf *p, const struct death_watch *w, int which)
{
	ebpf_load_map_value(p, R2, w->control_fd, (uint32_t)(8 * which));
	ebpf_mov_imm(p, R1, 1);
	ebpf_atomic(p, BPF_ADD, R2, 0, R1);
}

static void emit_reserve(struct ebpf *p, const struct death_watch *w)
{
	ebpf_load_map(p, R1, w->ring.fd);
	ebpf_mov_imm(p, R2, sizeof(struct death_record));
	ebpf_mov_imm(p, R3, 0);
	ebpf_call(p, BPF_FUNC_ringbuf_reserve);
	uint32_t room = ebpf_jump_imm(p, BPF_JNE, R0, 0);

	emit_count(p, w, DEATH_UNRECORDED);
	emit_end(p);
	ebpf_land(p, room);
	ebpf_mov(p, RECORD, R0);
}

static void emit_to_record(struct ebpf *p, int16_t at)
{
	ebpf_mov(p, R1, RECORD);
	ebpf_alu_imm(p, BPF_ADD, R1, at);
}

static void emit_facts(struct ebpf *p, const struct death_watch *w)
{
	ebpf_call(p, BPF_FUNC_ktime_get_ns);
	ebpf_store(p, BPF_DW, RECORD, AT(time_ns), R0);
	ebpf_current_ids(p, &w->ids, AT_KEY);
	ebpf_store(p, BPF_DW, RECORD, AT(pid_tid), R0);
	ebpf_load_mem(p, BPF_DW, R1, CONTEXT, 0);
	ebpf_store(p, BPF_DW, RECORD, AT(signal), R1);
	emit_to_record(p, AT(info));
	ebpf_mov_imm(p, R2, DEATH_INFO_BYTES);
	ebpf_load_mem(p, BPF_DW, R3, CONTEXT, 8);
	ebpf_call(p, BPF_FUNC_probe_read_kernel); /* zeroes what it cannot read */
	emit_to_record(p, AT(thread));
	ebpf_mov_imm(p, R2, sizeof(((struct death_record *)NULL)->thread));
	ebpf_call(p, BPF_FUNC_get_current_comm);
}

static void emit_registers(struct ebpf *p, const struct death_watch *w)
{
	for (int i = 0; !w->has_registers && i < RECORD_REGS; i++)
		ebpf_store_imm(p, BPF_DW, RECORD, (int16_t)(AT(regs) + 8 * i), 0);
	if (!w->has_registers)
		return;
	ebpf_call(p, BPF_FUNC_get_current_task_btf);
	ebpf_mov(p, R1, R0);
	ebpf_call(p, BPF_FUNC_task_pt_regs);
	ebpf_mov(p, REGISTERS, R0);
	for (int i = 0; i < RECORD_REGS; i++) {
		ebpf_load_mem(p, BPF_DW, R1, REGISTERS, arch_bpf_regs[i]);
		ebpf_store(p, BPF_DW, RECORD, (int16_t)(AT(regs) + 8 * i), R1);
	}
}

static void emit_copy_chunk(struct ebpf *p, uint32_t at)
{
	ebpf_mov(p, R1, RECORD);
	ebpf_alu_imm(p, BPF_ADD, R1, (int32_t)(offsetof(struct death_record, stack) + at));
	ebpf_mov_imm(p, R2, CHUNK);
	ebpf_load_mem(p, BPF_DW, R3, RECORD, AT(stack_at));
	ebpf_alu_imm(p, BPF_ADD, R3, (int32_t)at);
	ebpf_call(p, BPF_FUNC_probe_read_user);
}

static void emit_begin(struct ebpf *p, int32_t from_sp, int32_t align)
{
	ebpf_load_mem(p, BPF_DW, R3, RECORD, (int16_t)(AT(regs) + 8 * DEATH_REG_SP));
	ebpf_alu_imm(p, BPF_ADD, R3, from_sp);
	ebpf_alu_imm(p, BPF_AND, R3, -align);
	ebpf_store(p, BPF_DW, RECORD, AT(stack_at), R3);
}

/*
 * Chunk by chunk, each within one page: one read would be all or nothing. Of a stack that has
 * overflowed, sp is in the page below it.
 */
static void emit_stack(struct ebpf *p, const struct death_watch *w)
{
	uint32_t ends[DEATH_STACK_MAX / CHUNK];
	uint32_t n = 0;

	ebpf_mov_imm(p, COPIED, 0);
	emit_begin(p, 0, CHUNK);
	if (w->has_registers) {
		emit_copy_chunk(p, 0);
		uint32_t is_there = ebpf_jump_imm(p, BPF_JEQ, R0, 0);
		emit_begin(p, PAGE_BYTES, PAGE_BYTES);
		ebpf_land(p, is_there);
	}
	for (uint32_t at = 0; w->has_registers && at < DEATH_STACK_MAX; at += CHUNK) {
		emit_copy_chunk(p, at);
		ends[n++] = ebpf_jump_imm(p, BPF_JNE, R0, 0);
		ebpf_mov_imm(p, COPIED, (int32_t)(at + CHUNK));
	}
	while (n--)
		ebpf_land(p, ends[n]);
	ebpf_store(p, BPF_DW, RECORD, AT(stack_len), COPIED);
}

/* It may be a copy, in memory that has no file. */
static void emit_code(struct ebpf *p)
{
	ebpf_store_imm(p, BPF_DW, RECORD, AT(code_len), 0);
	emit_to_record(p, AT(code));
	ebpf_mov_imm(p, R2, DEATH_CODE_BYTES);
	ebpf_load_mem(p, BPF_DW, R3, RECORD, (int16_t)(AT(regs) + 8 * DEATH_REG_PC));
	ebpf_call(p, BPF_FUNC_probe_read_user);
	uint32_t is_elsewhere = ebpf_jump_imm(p, BPF_JNE, R0, 0);

	ebpf_store_imm(p, BPF_DW, RECORD, AT(code_len), DEATH_CODE_BYTES);
	ebpf_land(p, is_elsewhere);
}

/*
 * signal_deliver: the signal, its siginfo, the action. A thread that ends with its process has no
 * siginfo: the signal is another thread's, or was seen when it was sent.
 */
static void emit_signal(struct ebpf *p, const struct death_watch *w)
{
	emit_end_unless_member(p, w);
	emit_end_if_harmless(p);
	ebpf_load_mem(p, BPF_DW, R1, CONTEXT, 8);
	emit_end_if(p, BPF_JLE, R1, 1);
	emit_end_unless_default(p);
	emit_reserve(p, w);
	emit_facts(p, w);
	emit_registers(p, w);
	emit_code(p);
	emit_stack(p, w);
	ebpf_mov(p, R1, RECORD);
	ebpf_mov_imm(p, R2, 0);
	ebpf_call(p, BPF_FUNC_ringbuf_submit);
}

/* ---- a signal that is sent ---- */

/*
 * The process that gets it, which may be another than the one that runs; its number is left in R7.
 */
static void emit_end_unless_to_member(struct ebpf *p, const struct death_watch *w, int process_at)
{
	ebpf_load_mem(p, BPF_DW, R3, CONTEXT, 16);
	ebpf_store(p, BPF_DW, R10, AT_KEY, R3);
	ebpf_alu_imm(p, BPF_ADD, R3, process_at);
	ebpf_store_imm(p, BPF_DW, R10, AT_WORD, 0);
	emit_copy_kernel(p, AT_WORD, 4);
	ebpf_load_mem(p, BPF_DW, R7, R10, AT_WORD);
	emit_lookup(p, w->tasks_fd);
	uint32_t descends = ebpf_jump_imm(p, BPF_JNE, R0, 0);

	ebpf_store(p, BPF_DW, R10, AT_KEY, R7);
	emit_lookup(p, w->named_fd);
	emit_end_if(p, BPF_JEQ, R0, 0);
	ebpf_land(p, descends);
}

/*
 * signal_generate: the signal, its siginfo, the task. The siginfo is 1 where the kernel sends it
 * for a reason of its own; what it raises for an instruction has a positive code.
 */
static void emit_sent(struct ebpf *p, const struct death_watch *w, int process_at)
{
	emit_end_if_harmless(p);
	emit_end_unless_to_member(p, w, process_at);
	for (int16_t at = 0; at < (int16_t)sizeof(struct death_sender); at += 8)
		ebpf_store_imm(p, BPF_DW, R10, (int16_t)(AT_SENDER + at), 0);
	ebpf_load_mem(p, BPF_DW, R3, CONTEXT, 8);
	uint32_t by_kernel = ebpf_jump_imm(p, BPF_JEQ, R3, 1);
	uint32_t by_caller = ebpf_jump_imm(p, BPF_JEQ, R3, 0);
	ebpf_alu_imm(p, BPF_ADD, R3, CODE_AT);
	ebpf_store_imm(p, BPF_DW, R10, AT_WORD, 0);
	emit_copy_kernel(p, AT_WORD, 4);
	ebpf_load_mem(p, BPF_W, R1, R10, AT_WORD);
	ebpf_alu_imm(p, BPF_LSH, R1, 32);
	uint32_t is_raised = ebpf_jump_imm(p, BPF_JSGT, R1, 0);
	ebpf_land(p, by_caller);
	ebpf_current_ids(p, &w->ids, AT_KEY);
	ebpf_store(p, BPF_DW, R10, AT_SENDER, R0);
	emit_frame_address(p, R1, AT_SENDER + (int16_t)offsetof(struct death_sender, thread));
	ebpf_mov_imm(p, R2, sizeof(((struct death_sender *)NULL)->thread));
	ebpf_call(p, BPF_FUNC_get_current_comm);
	ebpf_land(p, by_kernel);
	ebpf_land(p, is_raised);
	ebpf_alu_imm(p, BPF_LSH, R7, 32);
	ebpf_load_mem(p, BPF_DW, R1, CONTEXT, 0);
	ebpf_alu(p, BPF_OR, R7, R1);
	ebpf_store(p, BPF_DW, R10, AT_KEY, R7);
	emit_update(p, w->senders_fd, AT_SENDER);
}

/* ---- begin and end ---- */

/* sched_process_fork: the parent, which runs, and the child; threads are children, too. */
static void emit_fork(struct ebpf *p, const struct death_watch *w)
{
	emit_end_unless_member(p, w);
	ebpf_load_mem(p, BPF_DW, R1, CONTEXT, 8);
	ebpf_store(p, BPF_DW, R10, AT_KEY, R1);
	ebpf_store_imm(p, BPF_DW, R10, AT_WORD, 1);
	emit_update(p, w->tasks_fd, AT_WORD);
	uint32_t is_kept = ebpf_jump_imm(p, BPF_JEQ, R0, 0);
	emit_count(p, w, DEATH_UNFOLLOWED);
	ebpf_land(p, is_kept);
}

/* The status of a process that ends by a signal is set before its threads end. */
static void emit_status(struct ebpf *p, const struct death_watch *w, int group_at, int status_at)
{
	program_key_task(p);
	ebpf_mov(p, R3, R0);
	ebpf_alu_imm(p, BPF_ADD, R3, group_at);
	emit_copy_kernel(p, AT_WORD, 8);
	ebpf_load_mem(p, BPF_DW, R3, R10, AT_WORD);
	ebpf_alu_imm(p, BPF_ADD, R3, status_at);
	ebpf_store_imm(p, BPF_DW, R10, AT_WORD, 0);
	emit_copy_kernel(p, AT_WORD, 4);
	ebpf_load_mem(p, BPF_DW, R1, R10, AT_WORD);
	ebpf_alu_imm(p, BPF_AND, R1, SIGNAL_BITS);
	uint32_t by_none = ebpf_jump_imm(p, BPF_JEQ, R1, 0);

	program_key_process(p, &w->ids);
	emit_update(p, w->ends_fd, AT_WORD);
	ebpf_land(p, by_none);
}

static void emit_exit(struct ebpf *p, const struct death_watch *w)
{
	int group_at = kernel_member_offset("task_struct", "signal");
	int status_at = kernel_member_offset("signal_struct", "group_exit_code");

	emit_end_unless_member(p, w);
	if (group_at >= 0 && status_at >= 0)
		emit_status(p, w, group_at, status_at);
	program_key_task(p);
	program_map_key(p, w->tasks_fd);
	ebpf_call(p, BPF_FUNC_map_delete_elem);
}

/*
 * In a further pid namespace the number of another process is not known, and neither is a sender.
 */
static int emit(struct ebpf *p, const struct death_watch *w, int which)
{
	int process_at = 0;

	ebpf_mov(p, CONTEXT, R1);
	if (which == DEATH_AT_SIGNAL)
		emit_signal(p, w);
	else if (which == DEATH_AT_FORK)
		emit_fork(p, w);
	else if (which == DEATH_AT_EXIT)
		emit_exit(p, w);
	else if (!w->ids.inode)
		process_at = kernel_member_offset("task_struct", "tgid");
	if (process_at > 0)
		emit_sent(p, w, process_at);
	emit_end(p);
	return process_at < 0 ? process_at : 0;
}

int death_program_load(const struct death_watch *w, int which)
{
	struct ebpf *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	int fd = emit(p, w, which);
	if (!fd)
		fd = ebpf_load(p, BPF_PROG_TYPE_RAW_TRACEPOINT, NULL, 0);
	free(p);
	return fd;
}
