/* SPDX-License-Identifier: MIT */
/*
 * program_load.c - see program_load.h.
 *
 * One program for each part and class, with its numbers written into the code. An attach cookie
 * would not do, since children do not inherit it and contexts swap between threads. Inherited
 * events carry the program of the event they come from.
 *
 * A verdict of 0 suppresses the perf sample. Since Linux commit c4fcc7d1f415 ("perf/bpf: Call BPF
 * handler directly, not through overflow machinery"), v6.10, it also suppresses the signal.
 */
#include "event/bpf/program_load.h"
#include "base/hash.h"
#include "cond/emit.h"
#include "event/bpf/program_calls.h"
#include "event/bpf/program_decide.h"
#include "event/bpf/program_frame.h"
#include "event/bpf/program_kernel.h"
#include "event/bpf/program_members.h"
#include "event/bpf/program_record.h"
#include "event/bpf/program_tracepoint.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "event/arch_regs.h"
#include "event/tracepoint/tracepoint.h"
#include "event/uprobe/uprobe.h"

int program_maps_open(struct trapline_event *ev)
{
	int fd = ebpf_map_create(BPF_MAP_TYPE_ARRAY, 4, sizeof(struct event_control), 1,
				 BPF_F_MMAPABLE);
	if (fd < 0)
		return fd;
	void *page = memory_map_shared(PAGE_BYTES, 1, fd, 0);
	if (memory_failed(page)) {
		sys_close(fd);
		return memory_error(page);
	}
	int storage = ebpf_task_storage_create(
		program_sees_kernel(ev) ? sizeof(struct program_task) : EBPF_TASK_BYTES);
	if (storage < 0) {
		memory_unmap(page, PAGE_BYTES);
		sys_close(fd);
		return storage;
	}
	ev->control = page;
	ev->control_fd = fd;
	ev->storage_fd = storage;
	return 0;
}

void program_maps_close(struct trapline_event *ev)
{
	if (!ev->control)
		return;
	memory_unmap(ev->control, PAGE_BYTES);
	ev->control = NULL;
	sys_close(ev->control_fd);
	sys_close(ev->storage_fd);
}

int16_t program_addr_at(const struct trapline_event *ev)
{
	return event_is_shared(ev) ? arch_bpf_regs[ARCH_REG_PC] :
				     (int16_t)offsetof(struct bpf_perf_event_data, addr);
}

void program_count(struct ebpf *p, int16_t counter)
{
	ebpf_mov_imm(p, R1, 1);
	ebpf_atomic(p, BPF_ADD, CONTROL, counter, R1);
}

void program_reject(struct ebpf *p, int16_t counter)
{
	program_count(p, counter);
	ebpf_mov_imm(p, R0, 0);
	ebpf_exit(p);
}

/* The slot that the handler will look into; see struct event_note. */
static void emit_note(struct ebpf *p, uint32_t part)
{
	int16_t at = CONTROL_AT(notes);

	ebpf_load_mem(p, BPF_DW, R8, CONTEXT, arch_bpf_regs[ARCH_REG_SP]);
	ebpf_load_imm64(p, R1, HASH_MIX);
	ebpf_mov(p, R2, R8);
	ebpf_alu(p, BPF_MUL, R2, R1);
	ebpf_alu_imm(p, BPF_RSH, R2, 64 - EVENT_NOTES_BITS);
	ebpf_alu_imm(p, BPF_LSH, R2, 5);
	ebpf_mov(p, R3, CONTROL);
	ebpf_alu(p, BPF_ADD, R3, R2);
	ebpf_mov_imm(p, R1, 0);
	/* Exchanged, not stored: a barrier on either side. */
	ebpf_atomic(p, BPF_XCHG, R3, (int16_t)(at + offsetof(struct event_note, key)), R1);
	ebpf_load_mem(p, BPF_DW, R1, R10, FRAME_OLD);
	ebpf_store(p, BPF_DW, R3, (int16_t)(at + offsetof(struct event_note, old_value)), R1);
	ebpf_load_mem(p, BPF_DW, R1, R10, FRAME_VALUE);
	ebpf_store(p, BPF_DW, R3, (int16_t)(at + offsetof(struct event_note, new_value)), R1);
	ebpf_load_mem(p, BPF_DW, R1, R10, FRAME_WHEN);
	ebpf_store(p, BPF_DW, R3, (int16_t)(at + offsetof(struct event_note, value_when)), R1);
	ebpf_alu_imm(p, BPF_LSH, R8, 8);
	ebpf_alu_imm(p, BPF_OR, R8, (int32_t)part);
	ebpf_atomic(p, BPF_XCHG, R3, (int16_t)(at + offsetof(struct event_note, key)), R8);
}

/*
 * Taken before the next instruction in user mode: at a breakpoint that is the one it is on, and
 * behind a uprobe the one after it. The first of several at once is enough.
 */
void program_stop(struct ebpf *p, const struct trapline_event *ev)
{
	program_count(p, CONTROL_AT(stops));
	ebpf_mov_imm(p, R1, ev->stop_signal ? (int32_t)ev->stop_signal : SIGSTOP);
	ebpf_call(p, ev->stop_signal ? BPF_FUNC_send_signal_thread : BPF_FUNC_send_signal);
	uint32_t sent = ebpf_jump_imm(p, BPF_JEQ, R0, 0);

	program_count(p, CONTROL_AT(stops_failed));
	ebpf_land(p, sent);
}

/* What is left is set by another process at any time: it is never put back. */
static void emit_stop_if_left(struct ebpf *p, const struct trapline_event *ev)
{
	ebpf_load_mem(p, BPF_DW, R1, CONTROL, CONTROL_AT(stops_left));
	uint32_t none = ebpf_jump_imm(p, BPF_JSLE, R1, 0);

	ebpf_mov_imm(p, R1, -1);
	ebpf_atomic(p, BPF_ADD | BPF_FETCH, CONTROL, CONTROL_AT(stops_left), R1);
	uint32_t taken = ebpf_jump_imm(p, BPF_JSLE, R1, 0);

	ebpf_load_mem(p, BPF_DW, R1, R10, FRAME_WHEN);
	ebpf_alu_imm(p, BPF_OR, R1, RECORD_STOPPED);
	ebpf_store(p, BPF_DW, R10, FRAME_WHEN, R1);
	program_stop(p, ev);
	ebpf_land(p, none);
	ebpf_land(p, taken);
}

/* If returns of calls are hits too, these are meant. A jump to another function is not a return. */
static int stops_by_signal(const struct trapline_event *ev, uint32_t part)
{
	if (ev->flags & TRAPLINE_RETURNS)
		return ev->stop_signal && part == UPROBE_RETURN;
	return ev->stop_signal != 0;
}

static void emit_count_to_stop(struct ebpf *p, const struct trapline_event *ev)
{
	ebpf_mov_imm(p, R1, 1);
	ebpf_atomic(p, BPF_ADD | BPF_FETCH, CONTROL, CONTROL_AT(granted), R1);
	ebpf_alu_imm(p, BPF_ADD, R1, 1);
	ebpf_load_mem(p, BPF_DW, R2, CONTROL, CONTROL_AT(stop_at));
	uint32_t go_on = ebpf_jump(p, BPF_JNE, R1, R2);

	program_stop(p, ev);
	ebpf_land(p, go_on);
}

static void emit_end_unless_target(struct ebpf *p, const struct uprobe_filter *filter)
{
	ebpf_load_imm64(p, R1, filter->device);
	ebpf_load_imm64(p, R2, filter->inode);
	ebpf_mov(p, R3, R10);
	ebpf_alu_imm(p, BPF_ADD, R3, FRAME_VALUE); /* struct bpf_pidns_info: pid, tgid */
	ebpf_mov_imm(p, R4, 8);
	ebpf_call(p, BPF_FUNC_get_ns_current_pid_tgid);
	uint32_t elsewhere = ebpf_jump_imm(p, BPF_JNE, R0, 0);

	ebpf_load_mem(p, BPF_W, R1, R10, FRAME_VALUE + 4);
	uint32_t ours = ebpf_jump_imm(p, BPF_JEQ, R1, filter->pid);

	ebpf_land(p, elsewhere);
	ebpf_mov_imm(p, R0, 0);
	ebpf_exit(p);
	ebpf_land(p, ours);
}

void program_end_if_off(struct ebpf *p, const struct trapline_event *ev)
{
	ebpf_load_mem(p, BPF_DW, R1, CONTROL, CONTROL_AT(is_off));
	uint32_t on = ebpf_jump_imm(p, BPF_JEQ, R1, 0);

	program_reject(p, CONTROL_AT(while_off));
	ebpf_land(p, on);
}

void program_end_unless_ours(struct ebpf *p, const struct trapline_event *ev, int is_return)
{
	if (event_has_members(ev))
		program_end_unless_member(p, ev);
	else if (!(ev->flags & TRAPLINE_EVERYWHERE))
		emit_end_unless_target(p, &ev->links.filter);
	/* A call that was seen returns, no matter what was switched off since. */
	if (!is_return)
		program_end_if_off(p, ev);
}

int program_is_return(const struct trapline_event *ev, uint32_t part)
{
	if (ev->mechanism == TRAPLINE_BY_TRACEPOINT)
		return part == TRACEPOINT_RETURN;
	return ev->mechanism == TRAPLINE_BY_UPROBE && part != UPROBE_ENTRY;
}

/* What the handler executes was a hit before. */
static void emit_end_at_step(struct ebpf *p)
{
	ebpf_load_mem(p, BPF_DW, R1, CONTEXT, arch_bpf_regs[ARCH_REG_PC]);
	ebpf_load_imm64(p, R2, event_steps.start);
	ebpf_alu(p, BPF_SUB, R1, R2);
	uint32_t is_hit = ebpf_jump_imm(p, BPF_JGE, R1, (int32_t)event_steps.bytes);

	program_reject(p, CONTROL_AT(stepped));
	ebpf_land(p, is_hit);
}

int program_emit(struct ebpf *p, const struct trapline_event *ev, uint32_t part, uint32_t class,
		 int ring_fd)
{
	ebpf_mov(p, CONTEXT, R1);
	ebpf_load_map_value(p, CONTROL, ev->control_fd, 0);
	int is_return = program_is_return(ev, part);
	if (ev->mechanism == TRAPLINE_BY_TRACEPOINT)
		program_tracepoint_begin(p, ev, part);
	/* This is done for a call that is not a hit, too. */
	if (ev->flags & TRAPLINE_RETURNS && part == UPROBE_ENTRY)
		program_forget_call(p, ev);
	if (ev->mechanism == TRAPLINE_BY_UPROBE)
		program_end_unless_ours(p, ev, is_return);
	if (is_return)
		program_end_unless_call_passed(p, ev);
	if (event_is_data(ev) && event_steps.bytes)
		emit_end_at_step(p);
	program_count(p, CONTROL_AT(seen));
	int err = is_return ? 0 : program_decide(p, ev, part, class);
	if (is_return)
		program_no_value(p);
	if (err)
		return err;
	if (ev->mechanism == TRAPLINE_BY_TRACEPOINT)
		program_tracepoint_facts(p, ev, part);
	if (stops_by_signal(ev, part))
		emit_stop_if_left(p, ev);
	if (ring_fd == PROGRAM_SIGNALS && event_is_data(ev))
		emit_note(p, part);
	if (ring_fd != PROGRAM_SIGNALS && !(ev->flags & TRAPLINE_QUIET))
		program_record(p, ev, part, ring_fd);
	if (ev->flags & TRAPLINE_QUIET)
		emit_count_to_stop(p, ev);
	else
		program_count(p, CONTROL_AT(granted));
	if (ev->flags & TRAPLINE_STOP && !ev->stop_signal)
		program_stop(p, ev);
	ebpf_mov_imm(p, R0, ring_fd == PROGRAM_SIGNALS);
	ebpf_exit(p);
	cond_emit_functions(p);
	return 0;
}

static enum bpf_prog_type type_of(const struct trapline_event *ev)
{
	switch (ev->mechanism) {
	case TRAPLINE_BY_UPROBE:
		return BPF_PROG_TYPE_KPROBE;
	case TRAPLINE_BY_TRACEPOINT:
		return BPF_PROG_TYPE_RAW_TRACEPOINT;
	default:
		return BPF_PROG_TYPE_PERF_EVENT;
	}
}

int program_load(const struct trapline_event *ev, uint32_t part, uint32_t class, int ring_fd,
		 char *log, uint32_t log_size)
{
	/* Not on the stack, and not thread-local: that would be taken from every thread's stack. */
	struct ebpf *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->attach_type = ev->links.attach_type;
	int fd = program_emit(p, ev, part, class, ring_fd);
	if (!fd)
		fd = ebpf_load(p, type_of(ev), log, log_size);
	free(p);
	return fd;
}
