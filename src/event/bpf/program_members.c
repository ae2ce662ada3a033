/* SPDX-License-Identifier: MIT */
/*
 * program_members.c - see program_members.h.
 *
 * A task's address is its key, since its number may be given again and means another task in each
 * pid namespace. It is taken out when the task ends. The raw tracepoints give the tasks as
 * arguments.
 */
#include "event/bpf/program_members.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "event/bpf/program_frame.h"
#include "event/bpf/program_load.h"

enum {
	AT_VALUE = -16,
	AT_NAME = -32, /* of the thread */
};

#define NAME_BYTES 16

void program_map_key(struct ebpf *p, int map_fd)
{
	ebpf_load_map(p, R1, map_fd);
	ebpf_mov(p, R2, R10);
	ebpf_alu_imm(p, BPF_ADD, R2, PROGRAM_KEY_AT);
}

void program_key_task(struct ebpf *p)
{
	ebpf_call(p, BPF_FUNC_get_current_task);
	ebpf_store(p, BPF_DW, R10, PROGRAM_KEY_AT, R0);
}

void program_key_process(struct ebpf *p, const struct ebpf_ids *ids)
{
	ebpf_current_ids(p, ids, PROGRAM_KEY_AT);
	ebpf_alu_imm(p, BPF_RSH, R0, 32);
	ebpf_store(p, BPF_DW, R10, PROGRAM_KEY_AT, R0);
}

void program_end_unless_in(struct ebpf *p, int tasks_fd, int named_fd, const struct ebpf_ids *ids)
{
	program_key_task(p);
	program_map_key(p, tasks_fd);
	ebpf_call(p, BPF_FUNC_map_lookup_elem);
	uint32_t descends = ebpf_jump_imm(p, BPF_JNE, R0, 0);

	program_key_process(p, ids);
	program_map_key(p, named_fd);
	ebpf_call(p, BPF_FUNC_map_lookup_elem);
	uint32_t is_named = ebpf_jump_imm(p, BPF_JNE, R0, 0);

	ebpf_mov_imm(p, R0, 0);
	ebpf_exit(p);
	ebpf_land(p, descends);
	ebpf_land(p, is_named);
}

void program_end_unless_member(struct ebpf *p, const struct trapline_event *ev)
{
	const struct event_members *members = &ev->links.members;

	program_end_unless_in(p, members->tasks_fd, members->named_fd, &ev->ids);
}

/* The key is in the frame. */
static void emit_add(struct ebpf *p, const struct trapline_event *ev)
{
	ebpf_store_imm(p, BPF_DW, R10, AT_VALUE, 1);
	program_map_key(p, ev->links.members.tasks_fd);
	ebpf_mov(p, R3, R10);
	ebpf_alu_imm(p, BPF_ADD, R3, AT_VALUE);
	ebpf_mov_imm(p, R4, BPF_NOEXIST);
	ebpf_call(p, BPF_FUNC_map_update_elem);
	uint32_t added = ebpf_jump_imm(p, BPF_JEQ, R0, 0);
	uint32_t known = ebpf_jump_imm(p, BPF_JEQ, R0, -EEXIST);

	program_count(p, CONTROL_AT(not_followed));
	uint32_t full = ebpf_jump_imm(p, BPF_JA, 0, 0);

	ebpf_land(p, added);
	program_count(p, CONTROL_AT(followed));
	ebpf_land(p, known);
	ebpf_land(p, full);
}

static void emit_remove(struct ebpf *p, const struct trapline_event *ev)
{
	program_key_task(p);
	program_map_key(p, ev->links.members.tasks_fd);
	ebpf_call(p, BPF_FUNC_map_delete_elem);
	uint32_t unknown = ebpf_jump_imm(p, BPF_JNE, R0, 0);

	ebpf_mov_imm(p, R1, -1);
	ebpf_atomic(p, BPF_ADD, CONTROL, CONTROL_AT(followed), R1);
	ebpf_land(p, unknown);
}

/* sched_process_fork: the parent, which runs, and the child; threads are children, too. */
static void emit_fork(struct ebpf *p, const struct trapline_event *ev)
{
	program_end_unless_member(p, ev);
	ebpf_load_mem(p, BPF_DW, R1, CONTEXT, 8);
	ebpf_store(p, BPF_DW, R10, PROGRAM_KEY_AT, R1);
	emit_add(p, ev);
}

/* sched_process_exec: the thread has the name of its new program already. */
static void emit_exec(struct ebpf *p, const struct trapline_event *ev)
{
	uint64_t name[NAME_BYTES / 8];
	uint32_t differs[NAME_BYTES / 8];

	memcpy(name, ev->links.members.name, sizeof(name));
	ebpf_mov(p, R1, R10);
	ebpf_alu_imm(p, BPF_ADD, R1, AT_NAME);
	ebpf_mov_imm(p, R2, NAME_BYTES);
	ebpf_call(p, BPF_FUNC_get_current_comm);
	for (int i = 0; i < NAME_BYTES / 8; i++) {
		ebpf_load_mem(p, BPF_DW, R1, R10, (int16_t)(AT_NAME + 8 * i));
		ebpf_load_imm64(p, R2, name[i]);
		differs[i] = ebpf_jump(p, BPF_JNE, R1, R2);
	}
	program_key_task(p);
	emit_add(p, ev);
	ebpf_mov_imm(p, R0, 0);
	ebpf_exit(p);
	for (int i = 0; i < NAME_BYTES / 8; i++)
		ebpf_land(p, differs[i]);
	if (ev->flags & TRAPLINE_FOLLOW_FORKS)
		return;
	emit_remove(p, ev);
	program_key_process(p, &ev->ids);
	program_map_key(p, ev->links.members.named_fd);
	ebpf_call(p, BPF_FUNC_map_delete_elem);
}

int program_members_load(const struct trapline_event *ev, int which)
{
	struct ebpf *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	ebpf_mov(p, CONTEXT, R1);
	ebpf_load_map_value(p, CONTROL, ev->control_fd, 0);
	if (which == MEMBERS_AT_FORK)
		emit_fork(p, ev);
	else if (which == MEMBERS_AT_EXEC)
		emit_exec(p, ev);
	else
		emit_remove(p, ev);
	ebpf_mov_imm(p, R0, 0);
	ebpf_exit(p);
	int fd = ebpf_load(p, BPF_PROG_TYPE_RAW_TRACEPOINT, NULL, 0);
	free(p);
	return fd;
}
