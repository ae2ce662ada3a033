/* SPDX-License-Identifier: MIT */
/* uprobe_filter.c - see uprobe_filter.h. */
#include "event/uprobe/uprobe_filter.h"

#include <errno.h>
#include <linux/bpf.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/ebpf.h"
#include "base/memory.h"
#include "base/sys.h"
#include "code/reach/code_file.h"
#include "event/ids.h"
#include "event/tasks.h"

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

__attribute__((noipa)) static void trial_site(void)
{
	__asm__ volatile("nop");
}

static void *call_trial_site(void *arg)
{
	trial_site();
	return NULL;
}

/* A program that counts its runs in a map; uprobe-multi. */
static int load_counting(int map)
{
	struct ebpf *p = calloc(1, sizeof(*p));
	int fd = -ENOMEM;

	if (!p)
		return fd;
	ebpf_load_map_value(p, R1, map, 0);
	ebpf_mov_imm(p, R2, 1);
	ebpf_atomic(p, BPF_ADD, R1, 0, R2);
	ebpf_mov_imm(p, R0, 0);
	ebpf_exit(p);
	p->attach_type = UPROBE_MULTI_ATTACH;
	fd = ebpf_load(p, BPF_PROG_TYPE_KPROBE, NULL, 0);
	free(p);
	return fd;
}

static int link_trial_site(int program)
{
	struct code_file file;
	struct uprobe_multi link = {
		.prog_fd = (uint32_t)program,
		.attach_type = UPROBE_MULTI_ATTACH,
		.count = 1,
		.pid = (uint32_t)sys_getpid(),
	};
	uint64_t offset;

	if (code_file_find(sys_getpid(), (uintptr_t)trial_site, &file))
		return -ENOENT;
	offset = (uintptr_t)trial_site - file.start + file.offset;
	link.path = (uintptr_t)file.path;
	link.offsets = (uintptr_t)&offset;
	return sys_bpf(BPF_LINK_CREATE, (union bpf_attr *)&link, sizeof(link));
}

/* Called by another thread than the one that made the link: is it seen? */
static uint32_t try_process_filter(const uint64_t *runs)
{
	pthread_t thread;
	uint64_t before = atomic_get(runs);
	if (pthread_create(&thread, NULL, call_trial_site, NULL) == 0)
		pthread_join(thread, NULL);
	return atomic_get(runs) > before ? YES : NO;
}

static uint32_t has_multi;
static uint32_t filters_processes;

static void try_all(void)
{
	int map = ebpf_map_create(BPF_MAP_TYPE_ARRAY, 4, 8, 1, BPF_F_MMAPABLE);
	uint64_t *runs = map < 0 ? NULL : memory_map_shared(PAGE_BYTES, 1, map, 0);
	int program = map < 0 ? map : load_counting(map);
	int link = program < 0 ? program : link_trial_site(program);

	/* Linux 6.1 loads the program, whatever it is to be attached to, and refuses the link. */
	atomic_set(&has_multi, (uint32_t)(program >= 0 && link != -EINVAL ? YES : NO));
	if (link >= 0 && runs && !memory_failed(runs))
		atomic_set(&filters_processes, try_process_filter(runs));
	if (link >= 0)
		sys_close(link);
	if (runs && !memory_failed(runs))
		memory_unmap(runs, PAGE_BYTES);
	if (program >= 0)
		sys_close(program);
	if (map >= 0)
		sys_close(map);
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
