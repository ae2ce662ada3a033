/* SPDX-License-Identifier: MIT */
/*
 * program_tracepoint.c - see program_tracepoint.h.
 *
 * The tracepoints of system calls are reached by every thread of the system. So the number comes
 * first: it ends most runs after a few instructions. A raw tracepoint gives pointers of the kernel
 * as arguments, and what they lead to is copied.
 */
#include "event/bpf/program_tracepoint.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>

#include "base/syscall_args.h"
#include "event/arch_regs.h"
#include "event/bpf/program_frame.h"
#include "event/bpf/program_load.h"
#include "event/bpf/program_members.h"
#include "event/tracepoint/tracepoint.h"

#define WANTED R8 /* the word of the table, until the record */
#define SIGINFO_CODE 8
#define GROUP_EXIT 4 /* SIGNAL_GROUP_EXIT: a thread ends them all */
/* The siginfo of the kernel's own signals: numbers instead of a pointer. */
#define INFO_OF_CALLER 0
#define INFO_OF_KERNEL 1

enum argument {
	FIRST = 0,
	SECOND = 8,
	THIRD = 16
};

const int16_t *program_regs_at(const struct trapline_event *ev)
{
	const int is_call = ev->mechanism == TRAPLINE_BY_TRACEPOINT &&
			    ev->tracepoints.what <= TRAPLINE_AT_DESCRIPTOR;

	return is_call ? arch_syscall_regs : arch_bpf_regs;
}

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

static void emit_load_argument(struct ebpf *p, int dst, enum argument which)
{
	ebpf_load_mem(p, BPF_DW, dst, ARGUMENTS, (int16_t)which);
}

/* R3 + at is an address of the kernel; R1 and FRAME_WORD: the word, 0 where it cannot be read. */
static void emit_read(struct ebpf *p, int at, int32_t bytes)
{
	ebpf_store_imm(p, BPF_DW, R10, FRAME_WORD, 0);
	ebpf_alu_imm(p, BPF_ADD, R3, at);
	ebpf_mov(p, R1, R10);
	ebpf_alu_imm(p, BPF_ADD, R1, FRAME_WORD);
	ebpf_mov_imm(p, R2, bytes);
	ebpf_call(p, BPF_FUNC_probe_read_kernel);
	ebpf_load_mem(p, BPF_DW, R1, R10, FRAME_WORD);
}

static void emit_registers(struct ebpf *p)
{
	ebpf_call(p, BPF_FUNC_get_current_task_btf);
	ebpf_mov(p, R1, R0);
	ebpf_call(p, BPF_FUNC_task_pt_regs);
	ebpf_mov(p, CONTEXT, R0);
}

/* WANTED: what the table has for the number in dst. */
static void emit_look_up(struct ebpf *p, const struct trapline_event *ev, int dst)
{
	emit_end_if(p, BPF_JGE, dst, (int32_t)TRACEPOINT_NUMBERS);
	ebpf_alu_imm(p, BPF_LSH, dst, 1);
	ebpf_load_map_value(p, R2, ev->tracepoints.table_fd, 0);
	ebpf_alu(p, BPF_ADD, R2, dst);
	ebpf_load_mem(p, BPF_H, WANTED, R2, 0);
	emit_end_if(p, BPF_JEQ, WANTED, 0);
}

/* Their numbers mean other system calls. They are counted, so that a user sees what is missing. */
static void emit_end_if_compat(struct ebpf *p, const struct trapline_event *ev)
{
	if (ev->tracepoints.at.compat < 0)
		return;
	ebpf_call(p, BPF_FUNC_get_current_task);
	ebpf_mov(p, R3, R0);
	emit_read(p, ev->tracepoints.at.compat, 4);
	ebpf_alu_imm(p, BPF_AND, R1, 1 << ARCH_COMPAT_BIT);
	uint32_t is_native = ebpf_jump_imm(p, BPF_JEQ, R1, 0);

	program_end_unless_ours(p, ev, 0);
	program_reject(p, CONTROL_AT(compat));
	ebpf_land(p, is_native);
}

/* R1: 32 bits of it, as the kernel takes a descriptor. */
static void emit_load_descriptor(struct ebpf *p, int dst, int16_t at)
{
	ebpf_load_mem(p, BPF_DW, dst, CONTEXT, at);
	ebpf_alu_imm(p, BPF_LSH, dst, 32);
	ebpf_alu_imm(p, BPF_RSH, dst, 32);
}

static uint32_t emit_jump_unless_wanted(struct ebpf *p, uint32_t bits)
{
	ebpf_mov(p, R1, WANTED);
	ebpf_alu_imm(p, BPF_AND, R1, (int32_t)bits);
	return ebpf_jump_imm(p, BPF_JEQ, R1, 0);
}

/* An argument is the descriptor, or lies around it. */
static void emit_end_unless_argument(struct ebpf *p, const struct trapline_event *ev)
{
	const int32_t number = (int32_t)ev->tracepoints.number;
	uint32_t is_it[SYSCALL_ARGS_MAX];

	for (int i = 0; i < SYSCALL_ARGS_MAX; i++) {
		uint32_t other = emit_jump_unless_wanted(p, 1u << i);

		emit_load_descriptor(p, R1, arch_syscall_regs[arch_syscall_arguments[i]]);
		is_it[i] = ebpf_jump_imm(p, BPF_JEQ, R1, number);
		ebpf_land(p, other);
	}
	uint32_t no_range = emit_jump_unless_wanted(p, SYSCALL_RANGE);

	emit_load_descriptor(p, R1, arch_syscall_regs[arch_syscall_arguments[0]]);
	emit_load_descriptor(p, R2, arch_syscall_regs[arch_syscall_arguments[1]]);
	uint32_t above = ebpf_jump_imm(p, BPF_JGT, R1, number);
	uint32_t inside = ebpf_jump_imm(p, BPF_JGE, R2, number);

	ebpf_land(p, no_range);
	ebpf_land(p, above);
	emit_end(p);
	ebpf_land(p, inside);
	for (int i = 0; i < SYSCALL_ARGS_MAX; i++)
		ebpf_land(p, is_it[i]);
}

/* Two descriptors in memory that argument 0 or 3 leads to. */
static void emit_jump_if_in_pair(struct ebpf *p, const struct trapline_event *ev, uint32_t bit,
				 int16_t at, uint32_t *found)
{
	uint32_t other = emit_jump_unless_wanted(p, bit);

	ebpf_store_imm(p, BPF_DW, R10, FRAME_WORD, -1);
	ebpf_mov(p, R1, R10);
	ebpf_alu_imm(p, BPF_ADD, R1, FRAME_WORD);
	ebpf_mov_imm(p, R2, 8);
	ebpf_load_mem(p, BPF_DW, R3, CONTEXT, at);
	ebpf_call(p, BPF_FUNC_probe_read_user);
	for (int i = 0; i < 2; i++) {
		ebpf_load_mem(p, BPF_W, R1, R10, (int16_t)(FRAME_WORD + 4 * i));
		found[i] = ebpf_jump_imm(p, BPF_JEQ, R1, (int32_t)ev->tracepoints.number);
	}
	ebpf_land(p, other);
}

/* The call ends, and has made the descriptor. */
static void emit_end_unless_created(struct ebpf *p, const struct trapline_event *ev)
{
	uint32_t found[6];

	emit_load_argument(p, R2, SECOND);
	uint32_t is_other = ebpf_jump_imm(p, BPF_JNE, R2, (int32_t)ev->tracepoints.number);
	uint32_t is_not_new = emit_jump_unless_wanted(p, SYSCALL_CREATES | SYSCALL_DUPLICATES);

	found[0] = emit_jump_unless_wanted(p, SYSCALL_DUPLICATES);
	ebpf_load_mem(p, BPF_DW, R1, CONTEXT, arch_syscall_regs[arch_syscall_arguments[1]]);
	found[1] = ebpf_jump_imm(p, BPF_JEQ, R1, F_DUPFD);
	emit_end_if(p, BPF_JNE, R1, F_DUPFD_CLOEXEC);
	uint32_t is_duplicate = ebpf_jump_imm(p, BPF_JA, 0, 0);

	ebpf_land(p, is_other);
	ebpf_land(p, is_not_new);
	emit_end_if(p, BPF_JNE, R2, 0);
	emit_jump_if_in_pair(p, ev, SYSCALL_PAIR_FIRST, ARCH_BPF_ARGUMENT, &found[2]);
	emit_jump_if_in_pair(p, ev, SYSCALL_PAIR_LAST, arch_syscall_regs[arch_syscall_arguments[3]],
			     &found[4]);
	emit_end(p);
	ebpf_land(p, is_duplicate);
	for (int i = 0; i < 6; i++)
		ebpf_land(p, found[i]);
}

static void emit_call(struct ebpf *p, const struct trapline_event *ev, uint32_t part)
{
	const int is_descriptor = ev->tracepoints.what == TRAPLINE_AT_DESCRIPTOR;

	emit_registers(p);
	/* A return belongs to a call that passed, whose number is compared. */
	if (part == TRACEPOINT_ENTRY)
		emit_load_argument(p, R1, SECOND);
	else
		ebpf_load_mem(p, BPF_DW, R1, CONTEXT, ARCH_BPF_SYSCALL);
	ebpf_store(p, BPF_DW, R10, FRAME_SYSCALL, R1);
	if (is_descriptor)
		ebpf_store_imm(p, BPF_DW, R10, FRAME_NUMBER, (int32_t)ev->tracepoints.number);
	else
		ebpf_store(p, BPF_DW, R10, FRAME_NUMBER, R1);
	emit_look_up(p, ev, R1);
	emit_end_if_compat(p, ev);
	if (is_descriptor && part == TRACEPOINT_ENTRY)
		emit_end_unless_argument(p, ev);
	if (part == TRACEPOINT_CREATED)
		emit_end_unless_created(p, ev);
}

static void emit_look_up_signal(struct ebpf *p, const struct trapline_event *ev)
{
	emit_load_argument(p, R1, FIRST);
	ebpf_store(p, BPF_DW, R10, FRAME_NUMBER, R1);
	emit_look_up(p, ev, R1);
}

/* A number before Linux commit 72ba14deb40a ("mm: update mark_victim tracepoints fields"), v6.9. */
static void emit_victim(struct ebpf *p, const struct trapline_event *ev)
{
	emit_load_argument(p, R3, FIRST);
	ebpf_mov(p, R1, R3);
	ebpf_store(p, BPF_DW, R10, FRAME_WORD, R1);
	ebpf_alu_imm(p, BPF_RSH, R1, 32);
	uint32_t is_number = ebpf_jump_imm(p, BPF_JEQ, R1, 0);

	emit_read(p, ev->tracepoints.at.process, 4);
	ebpf_land(p, is_number);
	ebpf_load_mem(p, BPF_DW, R1, R10, FRAME_WORD);
}

/* R1: the process that it happens to. */
static void emit_object(struct ebpf *p, const struct trapline_event *ev)
{
	if (ev->tracepoints.what == TRAPLINE_AT_OOM) {
		emit_victim(p, ev);
		return;
	}
	emit_load_argument(p, R3, ev->tracepoints.what == TRAPLINE_AT_SIGNAL ? THIRD : SECOND);
	emit_read(p, ev->tracepoints.at.process, 4);
}

/* A descendant is known by its task, as in program_members.c. */
static void emit_end_unless_to_target(struct ebpf *p, const struct trapline_event *ev)
{
	const struct event_members *members = &ev->links.members;

	program_end_if_off(p, ev);
	if (ev->flags & TRAPLINE_EVERYWHERE)
		return;
	emit_object(p, ev);
	if (!event_has_members(ev)) {
		emit_end_if(p, BPF_JNE, R1, ev->pid);
		return;
	}
	ebpf_store(p, BPF_DW, R10, PROGRAM_KEY_AT, R1);
	program_map_key(p, members->named_fd);
	ebpf_call(p, BPF_FUNC_map_lookup_elem);
	uint32_t is_named = ebpf_jump_imm(p, BPF_JNE, R0, 0);

	emit_load_argument(p, R1, ev->tracepoints.what == TRAPLINE_AT_OOM ? FIRST : THIRD);
	ebpf_store(p, BPF_DW, R10, PROGRAM_KEY_AT, R1);
	program_map_key(p, members->tasks_fd);
	ebpf_call(p, BPF_FUNC_map_lookup_elem);
	emit_end_if(p, BPF_JEQ, R0, 0);
	ebpf_land(p, is_named);
}

/* A new thread of the same process is not a child. */
static void emit_fork(struct ebpf *p, const struct trapline_event *ev)
{
	emit_load_argument(p, R3, FIRST);
	emit_read(p, ev->tracepoints.at.process, 4);
	ebpf_mov(p, WANTED, R1);
	emit_object(p, ev);
	uint32_t is_child = ebpf_jump(p, BPF_JNE, R1, WANTED);

	emit_end(p);
	ebpf_land(p, is_child);
}

static void emit_note(struct ebpf *p, const struct trapline_event *ev)
{
	ebpf_load_map(p, R1, ev->tracepoints.ends_fd);
	ebpf_mov(p, R2, R10);
	ebpf_alu_imm(p, BPF_ADD, R2, PROGRAM_KEY_AT);
}

/*
 * The thread that ends them all has the stack that shows why, and comes first: the others are
 * killed by it. The process is recorded then, by its address, until its last thread ends.
 */
static void emit_exit(struct ebpf *p, const struct trapline_event *ev)
{
	emit_load_argument(p, R3, FIRST);
	emit_read(p, ev->tracepoints.at.group, 8);
	ebpf_mov(p, WANTED, R1);
	ebpf_store(p, BPF_DW, R10, PROGRAM_KEY_AT, R1);
	ebpf_store_imm(p, BPF_DW, R10, FRAME_NUMBER, -EEXIST);
	ebpf_mov(p, R3, WANTED);
	emit_read(p, ev->tracepoints.at.flags, 4);
	ebpf_alu_imm(p, BPF_AND, R1, GROUP_EXIT);
	uint32_t is_one = ebpf_jump_imm(p, BPF_JEQ, R1, 0);

	emit_note(p, ev);
	ebpf_mov(p, R3, R2);
	ebpf_mov_imm(p, R4, BPF_NOEXIST);
	ebpf_call(p, BPF_FUNC_map_update_elem);
	ebpf_store(p, BPF_DW, R10, FRAME_NUMBER, R0);
	ebpf_land(p, is_one);
	ebpf_mov(p, R3, WANTED);
	emit_read(p, ev->tracepoints.at.live, 4);
	uint32_t has_more = ebpf_jump_imm(p, BPF_JNE, R1, 0);

	/* It was not recorded: the last of threads that ended one by one. */
	emit_note(p, ev);
	ebpf_call(p, BPF_FUNC_map_delete_elem);
	uint32_t was_noted = ebpf_jump_imm(p, BPF_JEQ, R0, 0);

	ebpf_store_imm(p, BPF_DW, R10, FRAME_NUMBER, 0);
	ebpf_land(p, was_noted);
	ebpf_land(p, has_more);
	ebpf_load_mem(p, BPF_DW, R1, R10, FRAME_NUMBER);
	emit_end_if(p, BPF_JNE, R1, 0);
}

/* What the owner of the event does would be hits without end. */
static void emit_end_if_owner(struct ebpf *p, const struct trapline_event *ev)
{
	ebpf_current_ids(p, &ev->ids, FRAME_IDS);
	ebpf_alu_imm(p, BPF_RSH, R0, 32);
	emit_end_if(p, BPF_JEQ, R0, ev->owner_pid);
}

void program_tracepoint_begin(struct ebpf *p, const struct trapline_event *ev, uint32_t part)
{
	const uint32_t what = ev->tracepoints.what;

	ebpf_mov(p, ARGUMENTS, CONTEXT);
	if (ev->flags & TRAPLINE_EVERYWHERE)
		emit_end_if_owner(p, ev);
	if (what <= TRAPLINE_AT_DESCRIPTOR) {
		emit_call(p, ev, part);
		program_end_unless_ours(p, ev, part == TRACEPOINT_RETURN);
		return;
	}
	ebpf_store_imm(p, BPF_DW, R10, FRAME_NUMBER, 0);
	ebpf_store_imm(p, BPF_DW, R10, FRAME_SYSCALL, -1);
	if (what == TRAPLINE_AT_SIGNAL)
		emit_look_up_signal(p, ev);
	if (what == TRAPLINE_AT_SIGNAL || what == TRAPLINE_AT_OOM)
		emit_end_unless_to_target(p, ev);
	else
		program_end_unless_ours(p, ev, 0);
	if (what == TRAPLINE_AT_FORK)
		emit_fork(p, ev);
	else if (what == TRAPLINE_AT_EXIT)
		emit_exit(p, ev);
	emit_registers(p);
}

static void emit_signal_facts(struct ebpf *p, const struct trapline_event *ev)
{
	emit_object(p, ev);
	ebpf_store(p, BPF_DW, R10, FRAME_VALUE, R1);
	ebpf_store_imm(p, BPF_DW, R10, FRAME_OLD, SI_USER);
	emit_load_argument(p, R3, SECOND);
	uint32_t by_caller = ebpf_jump_imm(p, BPF_JEQ, R3, INFO_OF_CALLER);

	ebpf_store_imm(p, BPF_DW, R10, FRAME_OLD, SI_KERNEL);
	uint32_t by_kernel = ebpf_jump_imm(p, BPF_JEQ, R3, INFO_OF_KERNEL);

	emit_read(p, SIGINFO_CODE, 4);
	ebpf_store(p, BPF_DW, R10, FRAME_OLD, R1);
	ebpf_land(p, by_caller);
	ebpf_land(p, by_kernel);
}

/* The status of the process, or of the thread that is its last one. */
static void emit_exit_facts(struct ebpf *p, const struct trapline_event *ev)
{
	emit_load_argument(p, R3, FIRST);
	emit_read(p, ev->tracepoints.at.status, 4);
	ebpf_store(p, BPF_DW, R10, FRAME_VALUE, R1);
	emit_load_argument(p, R3, FIRST);
	emit_read(p, ev->tracepoints.at.group, 8);
	ebpf_mov(p, R3, R1);
	emit_read(p, ev->tracepoints.at.group_status, 4);
	uint32_t is_of_thread = ebpf_jump_imm(p, BPF_JEQ, R1, 0);

	ebpf_store(p, BPF_DW, R10, FRAME_VALUE, R1);
	ebpf_land(p, is_of_thread);
}

void program_tracepoint_facts(struct ebpf *p, const struct trapline_event *ev, uint32_t part)
{
	switch (ev->tracepoints.what) {
	case TRAPLINE_AT_SYSCALL:
	case TRAPLINE_AT_DESCRIPTOR:
		/* Has it a result? */
		if (part == TRACEPOINT_ENTRY)
			return;
		emit_load_argument(p, R1, SECOND);
		ebpf_store(p, BPF_DW, R10, FRAME_VALUE, R1);
		ebpf_store_imm(p, BPF_DW, R10, FRAME_OLD, 1);
		return;
	case TRAPLINE_AT_SIGNAL:
		emit_signal_facts(p, ev);
		return;
	case TRAPLINE_AT_FORK:
	case TRAPLINE_AT_OOM:
		emit_object(p, ev);
		ebpf_store(p, BPF_DW, R10, FRAME_VALUE, R1);
		return;
	case TRAPLINE_AT_EXIT:
		emit_exit_facts(p, ev);
		return;
	default:
		return;
	}
}
