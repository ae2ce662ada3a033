/* SPDX-License-Identifier: MIT */
/* tracepoint.c - see tracepoint.h. Runs at arming only. */
#include "event/tracepoint/tracepoint.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/ebpf.h"
#include "base/memory.h"
#include "base/sys.h"
#include "base/syscall_args.h"
#include "event/arch_regs.h"
#include "event/bpf/kernel_offset.h"
#include "event/bpf/program_calls.h"
#include "event/bpf/program_load.h"
#include "event/ids.h"
#include "event/uprobe/uprobe_filter.h"
#include "event/uprobe/uprobe_members.h"

#define ENDING_MAX 16384u /* processes that end at once */

/* What each kind of event is at, by part. NULL: it has no such part. */
static const char *const tracepoint_names[][TRACEPOINT_PROGRAMS] = {
	[TRAPLINE_AT_SYSCALL] = { "sys_enter", "sys_exit", NULL },
	[TRAPLINE_AT_DESCRIPTOR] = { "sys_enter", "sys_exit", "sys_exit" },
	[TRAPLINE_AT_SIGNAL] = { "signal_generate", NULL, NULL },
	[TRAPLINE_AT_EXEC] = { "sched_process_exec", NULL, NULL },
	[TRAPLINE_AT_FORK] = { "sched_process_fork", NULL, NULL },
	[TRAPLINE_AT_EXIT] = { "sched_process_exit", NULL, NULL },
	[TRAPLINE_AT_OOM] = { "mark_victim", NULL, NULL },
};

#define KINDS (sizeof(tracepoint_names) / sizeof(tracepoint_names[0]))

static const char *name_of(const struct trapline_event *ev, int part)
{
	if (part == TRACEPOINT_RETURN && !(ev->flags & TRAPLINE_RETURNS))
		return NULL;
	return tracepoint_names[ev->tracepoints.what][part];
}

/* Each system call that the descriptor can be an argument or a result of. */
static int want_descriptor(struct event_tracepoints *t, const uint32_t *numbers, size_t count,
			   const char **why)
{
	*why = "expected one descriptor";
	if (count != 1 || numbers[0] > INT32_MAX)
		return -EINVAL;
	t->number = numbers[0];
	for (uint32_t i = 0; i < TRACEPOINT_NUMBERS; i++)
		t->wanted[i] = (uint16_t)syscall_descriptors(i);
	return 0;
}

static int want_numbers(struct event_tracepoints *t, const uint32_t *numbers, size_t count,
			const char **why)
{
	const uint32_t end = t->what == TRAPLINE_AT_SIGNAL ? (uint32_t)SIGRTMAX + 1 :
							     TRACEPOINT_NUMBERS;

	*why = t->what == TRAPLINE_AT_SIGNAL ? "there is no signal of that number" :
					       "there is no system call of that number";
	for (uint32_t i = 0; !count && i < end; i++)
		t->wanted[i] = 1;
	for (size_t i = 0; i < count; i++) {
		if (numbers[i] >= end)
			return -EINVAL;
		t->wanted[numbers[i]] = 1;
	}
	return 0;
}

int tracepoint_describe(struct trapline_event *ev, uint32_t what, const uint32_t *numbers,
			size_t count, const char **why)
{
	struct event_tracepoints *t = &ev->tracepoints;

	*why = "unknown event of the kernel";
	if (what >= KINDS || (count && !numbers))
		return -EINVAL;
	*why = "this event has neither numbers nor returns";
	if (what > TRAPLINE_AT_SIGNAL && count)
		return -EINVAL;
	if (what > TRAPLINE_AT_DESCRIPTOR && ev->flags & TRAPLINE_RETURNS)
		return -EINVAL;
	t->what = what;
	t->wanted = memory_map(sizeof(struct tracepoint_table));
	if (memory_failed(t->wanted)) {
		int err = memory_error(t->wanted);
		t->wanted = NULL;
		*why = "out of memory";
		return err;
	}
	return what == TRAPLINE_AT_DESCRIPTOR ? want_descriptor(t, numbers, count, why) :
						want_numbers(t, numbers, count, why);
}

/* Only what the programs of this kind need: each is a search. */
static int find_members(struct event_tracepoints *t)
{
	const struct {
		int *at;
		const char *structure;
		const char *member;
		int is_needed;
	} members[] = {
		{ &t->at.process, "task_struct", "tgid", t->what > TRAPLINE_AT_DESCRIPTOR },
		{ &t->at.group, "task_struct", "signal", t->what == TRAPLINE_AT_EXIT },
		{ &t->at.status, "task_struct", "exit_code", t->what == TRAPLINE_AT_EXIT },
		{ &t->at.live, "signal_struct", "live", t->what == TRAPLINE_AT_EXIT },
		{ &t->at.flags, "signal_struct", "flags", t->what == TRAPLINE_AT_EXIT },
		{ &t->at.group_status, "signal_struct", "group_exit_code",
		  t->what == TRAPLINE_AT_EXIT },
	};

	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
		if (!members[i].is_needed)
			continue;
		*members[i].at = kernel_member_offset(members[i].structure, members[i].member);
		if (*members[i].at < 0)
			return -EOPNOTSUPP;
	}
	/* A kernel without it has its thread_info on the stack, and is older than the rest. */
	int info = kernel_member_offset("task_struct", "thread_info");
	int word = kernel_member_offset("thread_info", ARCH_COMPAT_MEMBER);
	t->at.compat = info < 0 || word < 0 ? -1 : info + word;
	return 0;
}

/* In a container a program sees the numbers of the host, and signals come from anywhere. */
static int knows_numbers(const struct trapline_event *ev)
{
	const uint32_t what = ev->tracepoints.what;

	return (what != TRAPLINE_AT_SIGNAL && what != TRAPLINE_AT_FORK &&
		what != TRAPLINE_AT_OOM) ||
	       !ev->ids.inode;
}

static int fill_table(struct event_tracepoints *t)
{
	const uint32_t key = 0;

	t->table_fd = ebpf_map_create(BPF_MAP_TYPE_ARRAY, 4, sizeof(struct tracepoint_table), 1, 0);
	return t->table_fd < 0 ? t->table_fd : ebpf_map_write(t->table_fd, &key, t->wanted);
}

static int make_maps(struct trapline_event *ev)
{
	struct event_tracepoints *t = &ev->tracepoints;
	int err = fill_table(t);

	if (!err && t->what == TRAPLINE_AT_EXIT) {
		t->ends_fd = ebpf_map_create(BPF_MAP_TYPE_HASH, 8, 8, ENDING_MAX, 0);
		err = t->ends_fd < 0 ? t->ends_fd : 0;
	}
	if (!err && ev->flags & TRAPLINE_RETURNS) {
		ev->links.calls_fd = program_calls_open();
		err = ev->links.calls_fd < 0 ? ev->links.calls_fd : 0;
	}
	return err;
}

static int load_all(struct trapline_event *ev, int ring_fd)
{
	int err = 0;

	for (int part = 0; !err && part < TRACEPOINT_PROGRAMS; part++) {
		if (!name_of(ev, part))
			continue;
		int fd = program_load(ev, (uint32_t)part, 0, ring_fd, NULL, 0);
		ev->tracepoints.programs[part] = fd < 0 ? 0 : fd;
		err = fd < 0 ? fd : 0;
	}
	return err;
}

/* Returns first: no call is seen whose return is not. */
static int attach_all(struct trapline_event *ev)
{
	struct event_tracepoints *t = &ev->tracepoints;
	int err = 0;

	for (int part = TRACEPOINT_PROGRAMS; !err && part--;) {
		if (!t->programs[part] || t->links[part])
			continue;
		int fd = ebpf_attach_tracepoint(t->programs[part], name_of(ev, part));
		t->links[part] = fd < 0 ? 0 : fd;
		err = fd < 0 ? fd : 0;
	}
	return err;
}

static int know_target(struct trapline_event *ev, const char **why)
{
	if (event_has_members(ev))
		return uprobe_members_open(ev, why);
	if (ev->flags & TRAPLINE_EVERYWHERE)
		return 0;
	return uprobe_filter_read(ev->pid, &ev->links.filter);
}

int tracepoints_open(struct trapline_event *ev, int ring_fd, const char **why)
{
	*why = "signals, children and victims are known by their numbers in the first pid "
	       "namespace: run it there, not in a container";
	if (!knows_numbers(ev))
		return -EOPNOTSUPP;
	*why = "this kernel has no description of itself (/sys/kernel/btf/vmlinux)";
	int err = find_members(&ev->tracepoints);
	if (!err)
		err = know_target(ev, why);
	if (!err)
		*why = "BPF maps cannot be made";
	if (!err)
		err = make_maps(ev);
	if (!err)
		*why = "the BPF program was refused";
	if (!err)
		err = load_all(ev, ring_fd);
	if (!err)
		*why = "the kernel refused a program at its tracepoint";
	if (!err)
		err = attach_all(ev);
	/* After these: a child that ends is one until its end has been seen. */
	return err || !event_has_members(ev) ? err : uprobe_members_follow(ev, why);
}

void tracepoints_rest(struct trapline_event *ev)
{
	struct event_tracepoints *t = &ev->tracepoints;

	for (int part = 0; part < TRACEPOINT_PROGRAMS; part++) {
		if (t->links[part] > 0)
			sys_close(t->links[part]);
		t->links[part] = 0;
	}
}

int tracepoints_attach_again(struct trapline_event *ev)
{
	return attach_all(ev);
}

void tracepoints_close(struct trapline_event *ev)
{
	struct event_tracepoints *t = &ev->tracepoints;

	if (t->wanted)
		memory_unmap(t->wanted, sizeof(struct tracepoint_table));
	tracepoints_rest(ev);
	for (int part = 0; part < TRACEPOINT_PROGRAMS; part++)
		if (t->programs[part] > 0)
			sys_close(t->programs[part]);
	if (t->table_fd > 0)
		sys_close(t->table_fd);
	if (t->ends_fd > 0)
		sys_close(t->ends_fd);
	memset(t, 0, sizeof(*t));
}
