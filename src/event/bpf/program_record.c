/* SPDX-License-Identifier: MIT */
/* program_record.c - the end of a program whose hits are read as records. */
#include <linux/bpf_perf_event.h>

#include "base/memory.h"
#include "event/arch_regs.h"
#include "event/bpf/program_amount.h"
#include "event/bpf/program_calls.h"
#include "event/bpf/program_frame.h"
#include "event/bpf/program_kernel.h"
#include "event/bpf/program_load.h"
#include "event/bpf/program_memory.h"
#include "event/bpf/program_record.h"
#include "event/bpf/program_tracepoint.h"
#include "event/uprobe/uprobe.h"
#include "record/layout.h"

#define RECORD_AT(member) ((int16_t)offsetof(struct record, member))

/*
 * A trap inside the kernel is an NMI to it, and so is the overflow of a PMU. There kernels without
 * resilient spin locks (before v6.15) do not wait for a ring that another CPU has locked: they
 * report "no room". It is locked for less time than a few tries take.
 */
#define NMI_TRIES 64
#define FRAME_TRIES FRAME_TEXTS /* which comes later */

static int tries_of(const struct trapline_event *ev)
{
	return program_sees_kernel(ev) || !event_is_breakpoint(ev) ? NMI_TRIES : 1;
}

static uint32_t emit_try_reserve(struct ebpf *p, int ring_fd, uint32_t bytes, int tries)
{
	ebpf_store_imm(p, BPF_DW, R10, FRAME_TRIES, tries);
	uint32_t again = p->count;
	ebpf_load_map(p, R1, ring_fd);
	ebpf_mov_imm(p, R2, (int32_t)bytes);
	ebpf_mov_imm(p, R3, 0);
	ebpf_call(p, BPF_FUNC_ringbuf_reserve);
	uint32_t room = ebpf_jump_imm(p, BPF_JNE, R0, 0);
	ebpf_load_mem(p, BPF_DW, R1, R10, FRAME_TRIES);
	ebpf_alu_imm(p, BPF_SUB, R1, 1);
	ebpf_store(p, BPF_DW, R10, FRAME_TRIES, R1);
	ebpf_land_at(p, ebpf_jump_imm(p, BPF_JNE, R1, 0), again);
	return room;
}

static void emit_reserve(struct ebpf *p, const struct trapline_event *ev, int ring_fd,
			 uint32_t bytes, int is_return)
{
	uint32_t room = emit_try_reserve(p, ring_fd, bytes, tries_of(ev));

	if (ev->has_limit && !is_return) {
		ebpf_mov_imm(p, R1, 1);
		ebpf_atomic(p, BPF_ADD, CONTROL, CONTROL_AT(budget), R1);
	}
	program_reject(p, CONTROL_AT(lost_full));
	ebpf_land(p, room);
	ebpf_mov(p, RECORD, R0);
}

static void emit_copy_frame(struct ebpf *p, int16_t to, int16_t from)
{
	ebpf_load_mem(p, BPF_DW, R1, R10, from);
	ebpf_store(p, BPF_DW, RECORD, to, R1);
}

static void emit_address(struct ebpf *p, const struct trapline_event *ev)
{
	if (ev->mechanism == TRAPLINE_BY_UPROBE) {
		ebpf_mov(p, R1, CONTEXT);
		ebpf_call(p, BPF_FUNC_get_attach_cookie);
	} else if (ev->mechanism == TRAPLINE_BY_TRACEPOINT) {
		ebpf_load_mem(p, BPF_DW, R0, R10, FRAME_NUMBER);
	} else {
		ebpf_load_mem(p, BPF_DW, R0, CONTEXT, program_addr_at(ev));
	}
	ebpf_store(p, BPF_DW, RECORD, RECORD_AT(address), R0);
}

static void emit_caller(struct ebpf *p, const struct trapline_event *ev, int is_return)
{
	struct arch_caller caller = arch_caller(1);

	if (ev->access != TRAPLINE_EXECUTE || ev->mechanism == TRAPLINE_BY_TRACEPOINT) {
		ebpf_mov_imm(p, R1, 0);
	} else if (is_return) {
		ebpf_load_mem(p, BPF_DW, R1, R10, FRAME_RETURN);
	} else if (!caller.in_memory) {
		ebpf_load_mem(p, BPF_DW, R1, CONTEXT, arch_bpf_regs[caller.reg]);
	} else {
		ebpf_mov(p, R1, RECORD);
		ebpf_alu_imm(p, BPF_ADD, R1, RECORD_AT(caller));
		ebpf_mov_imm(p, R2, 8);
		ebpf_load_mem(p, BPF_DW, R3, CONTEXT, arch_bpf_regs[caller.reg]);
		ebpf_call(p, BPF_FUNC_probe_read_user); /* zeroes what it cannot read */
		return;
	}
	ebpf_store(p, BPF_DW, RECORD, RECORD_AT(caller), R1);
}

/*
 * For a call its arguments, for a return its result: DWARF register 0, on x86-64 not an argument.
 */
static uint32_t texts_wanted(const struct trapline_event *ev, int is_return)
{
	const uint32_t result = 1;

	/* Text that was in no page when the call began is in one now. */
	if (ev->mechanism == TRAPLINE_BY_TRACEPOINT)
		return ev->texts;
	if (is_return)
		return ev->texts & result;
	return ARCH_CALLER_IN_MEMORY ? ev->texts & ~result : ev->texts;
}

/* Each has its location in the record, whether or not it is wanted at this kind of hit. */
static void emit_texts(struct ebpf *p, const struct trapline_event *ev, int is_return)
{
	uint32_t wanted = texts_wanted(ev, is_return);
	int32_t at = sizeof(struct record);

	ebpf_store_imm(p, BPF_DW, R10, FRAME_TEXTS, 0);
	for (int reg = 0; reg < RECORD_REGS && ev->texts; reg++) {
		if (!(ev->texts >> reg & 1))
			continue;
		if (wanted >> reg & 1) {
			ebpf_mov(p, R1, RECORD);
			ebpf_alu_imm(p, BPF_ADD, R1, at);
			ebpf_mov_imm(p, R2, RECORD_TEXT_BYTES);
			ebpf_load_mem(p, BPF_DW, R3, CONTEXT, program_regs_at(ev)[reg]);
			ebpf_call(p, BPF_FUNC_probe_read_user_str);
			uint32_t failed = ebpf_jump_imm(p, BPF_JSLE, R0, 0);
			ebpf_load_mem(p, BPF_DW, R1, R10, FRAME_TEXTS);
			ebpf_alu_imm(p, BPF_OR, R1, (int32_t)(1u << reg));
			ebpf_store(p, BPF_DW, R10, FRAME_TEXTS, R1);
			ebpf_land(p, failed);
		}
		at += (int32_t)RECORD_TEXT_BYTES;
	}
	emit_copy_frame(p, RECORD_AT(texts), FRAME_TEXTS);
}

static uint32_t texts_bytes(const struct trapline_event *ev)
{
	return (uint32_t)__builtin_popcount(ev->texts) * RECORD_TEXT_BYTES;
}

static void emit_fill(struct ebpf *p, const struct trapline_event *ev, uint32_t part)
{
	ebpf_load_imm64(p, R1, (uint64_t)ev->first_generation << 32 | part << 8 | ev->index);
	ebpf_store(p, BPF_DW, RECORD, RECORD_AT(event), R1);
	ebpf_call(p, BPF_FUNC_ktime_get_ns);
	ebpf_store(p, BPF_DW, RECORD, RECORD_AT(time_ns), R0);
	ebpf_current_ids(p, &ev->ids, FRAME_IDS);
	ebpf_store(p, BPF_DW, RECORD, RECORD_AT(pid_tid), R0);
	ebpf_call(p, BPF_FUNC_get_smp_processor_id);
	ebpf_store(p, BPF_DW, RECORD, RECORD_AT(cpu), R0);
	emit_address(p, ev);
	emit_copy_frame(p, RECORD_AT(new_value), FRAME_VALUE);
	emit_copy_frame(p, RECORD_AT(old_value), FRAME_OLD);
	emit_copy_frame(p, RECORD_AT(value_when), FRAME_WHEN);
	emit_copy_frame(p, RECORD_AT(len), FRAME_LEN);
	program_kernel_record(p, ev);
	if (ev->mechanism == TRAPLINE_BY_TRACEPOINT)
		emit_copy_frame(p, RECORD_AT(syscall), FRAME_SYSCALL);
	ebpf_mov(p, R1, RECORD);
	ebpf_alu_imm(p, BPF_ADD, R1, RECORD_AT(thread));
	ebpf_mov_imm(p, R2, 16);
	ebpf_call(p, BPF_FUNC_get_current_comm);
	for (int i = 0; i < RECORD_REGS; i++) {
		ebpf_load_mem(p, BPF_DW, R1, CONTEXT, program_regs_at(ev)[i]);
		ebpf_store(p, BPF_DW, RECORD, (int16_t)(RECORD_AT(regs) + 8 * i), R1);
	}
}

#define RETURN_POPS (ARCH_CALLER_IN_MEMORY ? 8 : 0)

/* The registers as they will be when the function has returned: the probe is at the instruction. */
static void emit_returned(struct ebpf *p)
{
	ebpf_load_mem(p, BPF_DW, R1, R10, FRAME_RETURN);
	ebpf_store(p, BPF_DW, RECORD, (int16_t)(RECORD_AT(regs) + 8 * ARCH_REG_PC), R1);
	ebpf_load_mem(p, BPF_DW, R1, CONTEXT, arch_bpf_regs[ARCH_REG_SP]);
	ebpf_alu_imm(p, BPF_ADD, R1, RETURN_POPS);
	ebpf_store(p, BPF_DW, RECORD, (int16_t)(RECORD_AT(regs) + 8 * ARCH_REG_SP), R1);
}

/*
 * A uprobe may be some bytes behind the instruction that it is for (event/uprobe/uprobe_place.h).
 * In another process both may lie elsewhere, but not within their page.
 */
static void emit_place(struct ebpf *p)
{
	const int16_t pc_at = RECORD_AT(regs) + 8 * ARCH_REG_PC;

	ebpf_load_mem(p, BPF_DW, R1, CONTEXT, arch_bpf_regs[ARCH_REG_PC]);
	ebpf_mov(p, R2, R1);
	ebpf_load_mem(p, BPF_DW, R3, RECORD, RECORD_AT(address));
	ebpf_alu(p, BPF_SUB, R2, R3);
	ebpf_alu_imm(p, BPF_AND, R2, PAGE_BYTES - 1);
	ebpf_alu(p, BPF_SUB, R1, R2);
	ebpf_store(p, BPF_DW, RECORD, pc_at, R1);
}

static void emit_chunk_begins(struct ebpf *p, int32_t from_sp)
{
	ebpf_load_mem(p, BPF_DW, R3, CONTEXT, arch_bpf_regs[ARCH_REG_SP]);
	ebpf_alu_imm(p, BPF_ADD, R3, from_sp);
	ebpf_alu_imm(p, BPF_AND, R3, -(int32_t)RECORD_STACK_CHUNK);
	ebpf_store(p, BPF_DW, R10, FRAME_STACK_AT, R3);
}

static void emit_copy_chunk(struct ebpf *p, uint32_t before, uint32_t at)
{
	ebpf_mov(p, R1, RECORD);
	ebpf_alu_imm(p, BPF_ADD, R1, (int32_t)(sizeof(struct record) + before + at));
	ebpf_mov_imm(p, R2, RECORD_STACK_CHUNK);
	ebpf_load_mem(p, BPF_DW, R3, R10, FRAME_STACK_AT);
	ebpf_alu_imm(p, BPF_ADD, R3, (int32_t)at);
	ebpf_call(p, BPF_FUNC_probe_read_user);
}

/*
 * Chunk by chunk, until the mapping ends or memory that was never used begins: one read would be
 * all or nothing. Chunks are aligned, so that none lies in two pages; the reader knows sp. Below it
 * is the red zone, in which functions that call no others keep their variables: memory that may
 * never have been used.
 */
static void emit_copy_stack(struct ebpf *p, uint32_t before, int32_t popped, uint32_t max)
{
	uint32_t ends[RECORD_STACK_MAX / RECORD_STACK_CHUNK];
	uint32_t n = 0;

	ebpf_store_imm(p, BPF_DW, R10, FRAME_STACK_LEN, 0);
	emit_chunk_begins(p, popped - (int32_t)ARCH_RED_ZONE);
	emit_copy_chunk(p, before, 0);
	uint32_t is_there = ebpf_jump_imm(p, BPF_JEQ, R0, 0);
	emit_chunk_begins(p, popped);
	emit_copy_chunk(p, before, 0);
	ends[n++] = ebpf_jump_imm(p, BPF_JNE, R0, 0);
	ebpf_land(p, is_there);
	ebpf_store_imm(p, BPF_DW, R10, FRAME_STACK_LEN, RECORD_STACK_CHUNK);
	for (uint32_t at = RECORD_STACK_CHUNK; at < max; at += RECORD_STACK_CHUNK) {
		emit_copy_chunk(p, before, at);
		ends[n++] = ebpf_jump_imm(p, BPF_JNE, R0, 0);
		ebpf_store_imm(p, BPF_DW, R10, FRAME_STACK_LEN, (int32_t)(at + RECORD_STACK_CHUNK));
	}
	while (n--)
		ebpf_land(p, ends[n]);
	emit_copy_frame(p, RECORD_AT(stack_len), FRAME_STACK_LEN);
	emit_copy_frame(p, RECORD_AT(stack_at), FRAME_STACK_AT);
}

static void emit_other_count(struct ebpf *p, const struct trapline_event *ev)
{
	const struct trapline_event *other = ev->count_of.row;

	if (other && event_is_readable_amount(other)) {
		program_read_amount(p, other);
		uint32_t readable = ebpf_jump_imm(p, BPF_JSGE, R0, 0);
		ebpf_mov_imm(p, R0, -1);
		ebpf_land(p, readable);
		ebpf_store(p, BPF_DW, RECORD, RECORD_AT(count), R0);
		return;
	}
	ebpf_mov_imm(p, R1, 0);
	if (other) {
		ebpf_load_map_value(p, R2, other->control_fd, 0);
		ebpf_load_mem(p, BPF_DW, R1, R2, CONTROL_AT(hits));
	}
	ebpf_store(p, BPF_DW, RECORD, RECORD_AT(count), R1);
}

/* The caller of a system call is found by its stack; a result needs none. */
static uint32_t stack_bytes(const struct trapline_event *ev, int is_return)
{
	if (ev->mechanism == TRAPLINE_BY_TRACEPOINT && is_return)
		return 0;
	if (ev->flags & TRAPLINE_STACK_BYTES)
		return RECORD_STACK_MAX;
	return ev->mechanism == TRAPLINE_BY_TRACEPOINT ? RECORD_STACK_NEAR : 0;
}

void program_record(struct ebpf *p, const struct trapline_event *ev, uint32_t part, int ring_fd)
{
	int is_uprobe = ev->mechanism == TRAPLINE_BY_UPROBE;
	int is_return = program_is_return(ev, part);
	uint32_t stack_max = stack_bytes(ev, is_return);
	int has_returned = is_uprobe && part == UPROBE_RETURN;
	uint32_t before = texts_bytes(ev) + ev->memory_room;
	uint32_t bytes = sizeof(struct record) + before + stack_max;

	emit_reserve(p, ev, ring_fd, bytes, is_return);
	emit_fill(p, ev, part);
	if (has_returned)
		emit_returned(p);
	else if (is_uprobe && !is_return)
		emit_place(p);
	emit_caller(p, ev, is_return);
	emit_texts(p, ev, is_return);
	if (!is_return || has_returned)
		program_memory(p, ev, (uint32_t)sizeof(struct record) + texts_bytes(ev),
			       has_returned);
	else
		ebpf_store_imm(p, BPF_DW, RECORD, RECORD_AT(memory_len), 0);
	if (part == UPROBE_ENTRY && ev->flags & TRAPLINE_RETURNS)
		program_note_call(p, ev);
	if (stack_max)
		emit_copy_stack(p, before, has_returned ? RETURN_POPS : 0, stack_max);
	else
		ebpf_store_imm(p, BPF_DW, RECORD, RECORD_AT(stack_len), 0);
	emit_other_count(p, ev);
	ebpf_mov(p, R1, RECORD);
	ebpf_mov_imm(p, R2, 0);
	ebpf_call(p, BPF_FUNC_ringbuf_submit);
}
