/* SPDX-License-Identifier: MIT */
/*
 * program.c - see program.h.
 *
 * One program for each part and class, with the numbers that tell them apart written into the
 * code: an attach cookie would not do, since children do not inherit it and contexts swap
 * between threads. Inherited events carry the program of the event they come from.
 *
 * The program always returns 0: no perf sample, no signal. Its order is
 *	count, reject a duplicate, spend the budget, read the value, write the record.
 * It holds nothing that could fail in the verifier for one event and not for another.
 */
#include "event/program.h"

#include <errno.h>
#include <linux/bpf_perf_event.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cond/ebpf.h"
#include "event/arch_regs.h"
#include "record/layout.h"

/* Frame of the program, below R10. */
enum { FRAME_VALUE = -8, FRAME_WHEN = -16, FRAME_OLD = -24, FRAME_STACK_LEN = -32 };

/* R6 context, R7 control page, R8 record. */
#define CONTEXT R6
#define CONTROL R7
#define RECORD R8

#define CONTROL_AT(member) ((int16_t)offsetof(struct event_control, member))
#define RECORD_AT(member) ((int16_t)offsetof(struct record, member))

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
	int storage = ebpf_task_storage_create();
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

static void emit_count(struct ebpf *p, int16_t counter)
{
	ebpf_mov_imm(p, R1, 1);
	ebpf_atomic(p, BPF_ADD, CONTROL, counter, R1);
}

static void emit_reject(struct ebpf *p, int16_t counter)
{
	emit_count(p, counter);
	ebpf_mov_imm(p, R0, 0);
	ebpf_exit(p);
}

/*
 * The first class that a thread sees owns it. Kept in the task itself: a map of thread ids would
 * answer for a dead thread whose number was given again.
 */
static void emit_reject_duplicate(struct ebpf *p, int storage_fd, uint32_t class)
{
	ebpf_call(p, BPF_FUNC_get_current_task_btf);
	ebpf_load_map(p, R1, storage_fd);
	ebpf_mov(p, R2, R0);
	ebpf_mov_imm(p, R3, 0);
	ebpf_mov_imm(p, R4, BPF_LOCAL_STORAGE_GET_F_CREATE);
	ebpf_call(p, BPF_FUNC_task_storage_get);
	/* No memory for the note: a hit seen twice is better than one not seen. */
	uint32_t no_note = ebpf_jump_imm(p, BPF_JEQ, R0, 0);
	ebpf_load_mem(p, BPF_DW, R1, R0, 0);
	uint32_t owned = ebpf_jump_imm(p, BPF_JNE, R1, 0);
	ebpf_mov_imm(p, R1, (int32_t)class + 1);
	ebpf_store(p, BPF_DW, R0, 0, R1);
	ebpf_land(p, owned);
	uint32_t ours = ebpf_jump_imm(p, BPF_JEQ, R1, (int32_t)class + 1);
	emit_reject(p, CONTROL_AT(rejected_duplicate));
	ebpf_land(p, ours);
	ebpf_land(p, no_note);
}

/*
 * Take one from the budget; put it back when it was empty. A rejected hit can so reject another
 * that arrives in the same moment as a re-arm, but exactly the budget is ever granted.
 */
static void emit_spend_budget(struct ebpf *p)
{
	ebpf_mov_imm(p, R1, -1);
	ebpf_atomic(p, BPF_ADD | BPF_FETCH, CONTROL, CONTROL_AT(budget), R1);
	uint32_t granted = ebpf_jump_imm(p, BPF_JSGT, R1, 0);
	ebpf_mov_imm(p, R1, 1);
	ebpf_atomic(p, BPF_ADD, CONTROL, CONTROL_AT(budget), R1);
	emit_reject(p, CONTROL_AT(rejected_limit));
	ebpf_land(p, granted);
}

/* FRAME_VALUE, FRAME_OLD and FRAME_WHEN of a data event. */
static void emit_read_value(struct ebpf *p, const struct event_part *part, uint32_t index)
{
	int16_t addr_at = offsetof(struct bpf_perf_event_data, addr);

	ebpf_store_imm(p, BPF_DW, R10, FRAME_VALUE, 0);
	ebpf_store_imm(p, BPF_DW, R10, FRAME_OLD, 0);
	ebpf_store_imm(p, BPF_DW, R10, FRAME_WHEN, TRAPLINE_VALUE_NONE);
	ebpf_mov(p, R1, R10);
	ebpf_alu_imm(p, BPF_ADD, R1, FRAME_VALUE);
	ebpf_mov_imm(p, R2, (int32_t)part->len);
	ebpf_load_mem(p, BPF_DW, R3, CONTEXT, addr_at);
	ebpf_call(p, BPF_FUNC_probe_read_user);
	uint32_t failed = ebpf_jump_imm(p, BPF_JNE, R0, 0);
	ebpf_store_imm(p, BPF_DW, R10, FRAME_WHEN, TRAPLINE_VALUE_AT_HIT);
	/* Exchanged, so that the chain old -> new has no gap however many threads write. */
	ebpf_load_mem(p, BPF_DW, R1, R10, FRAME_VALUE);
	ebpf_atomic(p, BPF_XCHG, CONTROL, (int16_t)(CONTROL_AT(last) + 8 * (int)index), R1);
	ebpf_store(p, BPF_DW, R10, FRAME_OLD, R1);
	ebpf_land(p, failed);
}

static void emit_reserve(struct ebpf *p, int ring_fd, uint32_t bytes, int limited)
{
	ebpf_load_map(p, R1, ring_fd);
	ebpf_mov_imm(p, R2, (int32_t)bytes);
	ebpf_mov_imm(p, R3, 0);
	ebpf_call(p, BPF_FUNC_ringbuf_reserve);
	uint32_t room = ebpf_jump_imm(p, BPF_JNE, R0, 0);
	if (limited) {
		ebpf_mov_imm(p, R1, 1);
		ebpf_atomic(p, BPF_ADD, CONTROL, CONTROL_AT(budget), R1);
	}
	emit_reject(p, CONTROL_AT(lost_full));
	ebpf_land(p, room);
	ebpf_mov(p, RECORD, R0);
}

static void emit_copy_frame(struct ebpf *p, int16_t to, int16_t from)
{
	ebpf_load_mem(p, BPF_DW, R1, R10, from);
	ebpf_store(p, BPF_DW, RECORD, to, R1);
}

static void emit_fill(struct ebpf *p, const struct trapline_event *ev, uint32_t part)
{
	int16_t addr_at = offsetof(struct bpf_perf_event_data, addr);

	ebpf_load_imm64(p, R1,
			(uint64_t)ev->first_generation << 32 | part << 8 | ev->index);
	ebpf_store(p, BPF_DW, RECORD, RECORD_AT(event), R1);
	ebpf_call(p, BPF_FUNC_ktime_get_ns);
	ebpf_store(p, BPF_DW, RECORD, RECORD_AT(time_ns), R0);
	ebpf_call(p, BPF_FUNC_get_current_pid_tgid);
	ebpf_store(p, BPF_DW, RECORD, RECORD_AT(pid_tid), R0);
	ebpf_load_mem(p, BPF_DW, R1, CONTEXT, addr_at);
	ebpf_store(p, BPF_DW, RECORD, RECORD_AT(address), R1);
	emit_copy_frame(p, RECORD_AT(new_value), FRAME_VALUE);
	emit_copy_frame(p, RECORD_AT(old_value), FRAME_OLD);
	emit_copy_frame(p, RECORD_AT(value_when), FRAME_WHEN);
	ebpf_mov(p, R1, RECORD);
	ebpf_alu_imm(p, BPF_ADD, R1, RECORD_AT(thread));
	ebpf_mov_imm(p, R2, 16);
	ebpf_call(p, BPF_FUNC_get_current_comm);
	for (int i = 0; i < RECORD_REGS; i++) {
		ebpf_load_mem(p, BPF_DW, R1, CONTEXT, arch_bpf_regs[i]);
		ebpf_store(p, BPF_DW, RECORD, (int16_t)(RECORD_AT(regs) + 8 * i), R1);
	}
}

/* Chunk by chunk from sp upwards, until the mapping ends: one read would be all or nothing. */
static void emit_copy_stack(struct ebpf *p)
{
	uint32_t ends[RECORD_STACK_MAX / RECORD_STACK_CHUNK];
	uint32_t n = 0;

	ebpf_store_imm(p, BPF_DW, R10, FRAME_STACK_LEN, 0);
	for (uint32_t at = 0; at < RECORD_STACK_MAX; at += RECORD_STACK_CHUNK) {
		ebpf_mov(p, R1, RECORD);
		ebpf_alu_imm(p, BPF_ADD, R1, (int32_t)(sizeof(struct record) + at));
		ebpf_mov_imm(p, R2, RECORD_STACK_CHUNK);
		ebpf_load_mem(p, BPF_DW, R3, CONTEXT, arch_bpf_regs[ARCH_REG_SP]);
		ebpf_alu_imm(p, BPF_ADD, R3, (int32_t)at);
		ebpf_call(p, BPF_FUNC_probe_read_user);
		ends[n++] = ebpf_jump_imm(p, BPF_JNE, R0, 0);
		ebpf_store_imm(p, BPF_DW, R10, FRAME_STACK_LEN,
			       (int32_t)(at + RECORD_STACK_CHUNK));
	}
	while (n--)
		ebpf_land(p, ends[n]);
	emit_copy_frame(p, RECORD_AT(stack_len), FRAME_STACK_LEN);
}

static void emit_all(struct ebpf *p, const struct trapline_event *ev, uint32_t part,
		     uint32_t class, int ring_fd)
{
	int with_stack = (ev->flags & TRAPLINE_STACK_BYTES) != 0;
	uint32_t bytes = sizeof(struct record) + (with_stack ? RECORD_STACK_MAX : 0);

	ebpf_mov(p, CONTEXT, R1);
	ebpf_load_map_value(p, CONTROL, ev->control_fd, 0);
	emit_count(p, CONTROL_AT(seen));
	emit_reject_duplicate(p, ev->storage_fd, class);
	if (ev->has_limit)
		emit_spend_budget(p);
	if (event_is_data(ev)) {
		emit_read_value(p, &ev->parts[part], part);
	} else {
		ebpf_store_imm(p, BPF_DW, R10, FRAME_VALUE, 0);
		ebpf_store_imm(p, BPF_DW, R10, FRAME_OLD, 0);
		ebpf_store_imm(p, BPF_DW, R10, FRAME_WHEN, TRAPLINE_VALUE_NONE);
	}
	emit_reserve(p, ring_fd, bytes, ev->has_limit);
	emit_fill(p, ev, part);
	if (with_stack)
		emit_copy_stack(p);
	else
		ebpf_store_imm(p, BPF_DW, RECORD, RECORD_AT(stack_len), 0);
	emit_count(p, CONTROL_AT(granted));
	ebpf_mov(p, R1, RECORD);
	ebpf_mov_imm(p, R2, 0);
	ebpf_call(p, BPF_FUNC_ringbuf_submit);
	ebpf_mov_imm(p, R0, 0);
	ebpf_exit(p);
}

int program_load(const struct trapline_event *ev, uint32_t part, uint32_t class, int ring_fd)
{
	/* Not on the stack, and not thread-local: that would be taken from every thread's stack. */
	struct ebpf *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	emit_all(p, ev, part, class, ring_fd);
	int fd = ebpf_load(p, BPF_PROG_TYPE_PERF_EVENT, NULL, 0);
	free(p);
	return fd;
}
