/* SPDX-License-Identifier: MIT */
/* uprobe_members.c - see uprobe_members.h. */
#include "event/uprobe/uprobe_members.h"

#include <errno.h>
#include <linux/bpf.h>
#include <string.h>

#include "base/ebpf.h"
#include "base/sys.h"
#include "base/table_size.h"
#include "event/bpf/program_members.h"

#define TASKS_MAX TABLE_SIZE(65536u, 4u) /* threads that are alive at once */
#define NAMED_MAX TABLE_SIZE(16384u, 4u)

static int attach(struct trapline_event *ev, int which, const char *tracepoint)
{
	const int program = program_members_load(ev, which);

	if (program < 0)
		return program;
	const int fd = ebpf_attach_tracepoint(program, tracepoint);
	sys_close(program);
	ev->links.members.links[which] = fd < 0 ? 0 : fd;
	return fd < 0 ? fd : 0;
}

int uprobe_members_open(struct trapline_event *ev, const char **why)
{
	struct event_members *members = &ev->links.members;

	*why = "a table of processes cannot be made";
	/* The key of a process is a whole word, so that it fits the frame of a program. */
	members->tasks_fd = ebpf_map_create(BPF_MAP_TYPE_HASH, 8, 8, TASKS_MAX, 0);
	members->named_fd = ebpf_map_create(BPF_MAP_TYPE_HASH, 8, 8, NAMED_MAX, 0);
	if (members->tasks_fd < 0 || members->named_fd < 0)
		return members->tasks_fd < 0 ? members->tasks_fd : members->named_fd;
	return uprobe_members_add(ev, ev->pid);
}

int uprobe_members_follow(struct trapline_event *ev, const char **why)
{
	const struct event_members *members = &ev->links.members;
	int follows = ev->flags & TRAPLINE_FOLLOW_FORKS || members->name[0];

	*why = "forks and execs cannot be followed: the kernel refused a program at its tracepoint";
	/* The end first: what is recorded is taken out. */
	int err = follows ? attach(ev, MEMBERS_AT_EXIT, "sched_process_exit") : 0;
	if (!err && follows)
		err = attach(ev, MEMBERS_AT_FORK, "sched_process_fork");
	if (!err && members->name[0])
		err = attach(ev, MEMBERS_AT_EXEC, "sched_process_exec");
	return err;
}

void uprobe_members_close(struct trapline_event *ev)
{
	struct event_members *members = &ev->links.members;

	for (int i = 0; i < MEMBERS_PROGRAMS; i++)
		if (members->links[i] > 0)
			sys_close(members->links[i]);
	if (members->tasks_fd > 0)
		sys_close(members->tasks_fd);
	if (members->named_fd > 0)
		sys_close(members->named_fd);
	memset(members, 0, sizeof(*members));
}

int uprobe_members_add(struct trapline_event *ev, pid_t pid)
{
	const uint64_t key = (uint64_t)pid;
	const uint64_t value = 1;

	return ebpf_map_write(ev->links.members.named_fd, &key, &value);
}
