/* SPDX-License-Identifier: MIT */
/* uprobe_filter.c - see uprobe_filter.h. */
#include "event/uprobe/uprobe_filter.h"

#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/ebpf.h"
#include "base/sys.h"
#include "base/tasks.h"
#include "event/ids.h"

enum {
	UNKNOWN,
	NO,
	YES
};

int uprobe_pmu_type(void)
{
	FILE *f = fopen("/sys/bus/event_source/devices/uprobe/type", "re");
	int type = -ENOENT;

	if (!f)
		return -errno;
	if (fscanf(f, "%d", &type) != 1)
		type = -ENOENT;
	fclose(f);
	return type;
}

int uprobe_filter_read(pid_t pid, struct uprobe_filter *out)
{
	char path[64];
	struct stat ns;

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", tasks_with_memory(pid));
	if (stat(path, &ns))
		return -errno;
	out->device = ns.st_dev;
	out->inode = ns.st_ino;
	out->pid = ids_read_inner(pid, pid);
	return out->pid ? 0 : -ESRCH;
}

int uprobe_load_nothing(void)
{
	struct ebpf *p = calloc(1, sizeof(*p));
	int fd = -ENOMEM;

	if (!p)
		return fd;
	ebpf_mov_imm(p, R0, 0);
	ebpf_exit(p);
	p->attach_type = UPROBE_MULTI_ATTACH;
	fd = ebpf_load(p, BPF_PROG_TYPE_KPROBE, NULL, 0);
	free(p);
	return fd;
}

/*
 * An attach to a directory, which no kernel accepts: the reason shows what it knows. A descriptor
 * or -errno.
 */
static int link_to_directory(int program, uint32_t pid)
{
	uint64_t offset = 0;
	struct uprobe_multi link = {
		.prog_fd = (uint32_t)program,
		.attach_type = UPROBE_MULTI_ATTACH,
		.path = (uintptr_t) "/",
		.offsets = (uintptr_t)&offset,
		.count = 1,
		.pid = pid,
	};

	return sys_bpf(BPF_LINK_CREATE, (union bpf_attr *)&link, sizeof(link));
}

static uint32_t has_multi;
static uint32_t filters_processes;

/*
 * A link to a real site would take two grace periods of RCU, 50 ms and more, before a command has
 * anything. A kernel that compared the thread and not the process took any number for a pid (before
 * Linux commit 46ba0e49b642 ("bpf: fix multi-uprobe PID filtering logic"), v6.10). Since then a
 * negative one is refused first. libbpf asks in the same way.
 */
static void try_all(void)
{
	int program = uprobe_load_nothing();

	/*
	 * Linux 6.1 loads the program, no matter what it is to be attached to, and refuses the
	 * link.
	 */
	int has = program >= 0 && link_to_directory(program, 0) != -EINVAL;
	int filters = has && link_to_directory(program, UINT32_MAX) == -EINVAL;
	atomic_set(&filters_processes, (uint32_t)(filters ? YES : NO));
	atomic_set(&has_multi, (uint32_t)(has ? YES : NO));
	if (program >= 0)
		sys_close(program);
}

int uprobe_has_multi(void)
{
	if (atomic_get(&has_multi) == UNKNOWN)
		try_all();
	return atomic_get(&has_multi) == YES;
}

int uprobe_filters_processes(void)
{
	return uprobe_has_multi() && atomic_get(&filters_processes) == YES;
}
