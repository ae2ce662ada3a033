/* SPDX-License-Identifier: MIT */
/*
 * uprobe.c - see uprobe.h.
 *
 * One link for all sites of a file and kind, where the kernel has such links (Linux commit
 * 89ae89f53d20 ("bpf: Add multi uprobe link"), v6.6). Else one perf event for each site. The cookie
 * of a site is its address. A probe is in the file's page, so it is hit by every process that runs
 * it: the program rejects the others before it counts anything.
 *
 * Returns are seen at the return instructions of a function, see uprobe_exits.h. The kernel's own
 * probes of returns replace return addresses on the stack. There C++ exceptions, pthread_exit(),
 * cancellation and profilers that walk the stack find no way on, which aborts the program.
 */
#include "event/uprobe/uprobe.h"

#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/memory.h"
#include "base/sys.h"
#include "base/tasks.h"
#include "event/bpf/program_calls.h"
#include "event/bpf/program_load.h"
#include "event/uprobe/uprobe_exits.h"
#include "event/uprobe/uprobe_filter.h"
#include "event/uprobe/uprobe_members.h"
#include "event/uprobe/uprobe_owner.h"
#include "event/uprobe/uprobe_place.h"
#include "event/uprobe/uprobe_text.h"

#define SINGLE_SITES_MAX 64 /* each takes 0.1 s to close */

static int by_file(const void *a, const void *b)
{
	const struct uprobe_site *x = a;
	const struct uprobe_site *y = b;

	if (x->file.device != y->file.device)
		return x->file.device < y->file.device ? -1 : 1;
	if (x->file.inode != y->file.inode)
		return x->file.inode < y->file.inode ? -1 : 1;
	return x->address < y->address ? -1 : x->address > y->address;
}

static int find_sites(pid_t pid, const uint64_t *addrs, size_t count, struct uprobe_site *sites)
{
	for (size_t i = 0; i < count; i++) {
		/* The neighbour's mapping is mostly the right one: maps are read once. */
		struct code_file *last = i ? &sites[i - 1].file : NULL;
		int err = 0;

		sites[i].address = addrs[i];
		if (last && addrs[i] >= last->start && addrs[i] < last->end)
			sites[i].file = *last;
		else
			err = code_file_find(pid, addrs[i], &sites[i].file);
		if (err)
			return err;
		sites[i].offset = addrs[i] - sites[i].file.start + sites[i].file.offset;
	}
	qsort(sites, count, sizeof(*sites), by_file);
	return 0;
}

uprobe_owner_call uprobe_owner;

static int keep_link(struct trapline_event *ev, int fd)
{
	struct event_links *links = &ev->links;

	if (links->count == links->capacity) {
		size_t old_bytes = links->capacity * sizeof(int);
		size_t bytes = old_bytes ? 2 * old_bytes : PAGE_BYTES;
		void *grown = old_bytes ? memory_remap(links->fds, old_bytes, bytes) :
					  memory_map(bytes);
		if (memory_failed(grown)) {
			uprobe_link_close(fd);
			return memory_error(grown);
		}
		links->fds = grown;
		links->capacity = bytes / sizeof(int);
	}
	links->fds[links->count++] = fd;
	return 0;
}

/* The kernel compares the memory of that thread: if it has ended, the program alone filters. */
static int is_for_one_process(const struct trapline_event *ev)
{
	return !event_has_members(ev) && uprobe_filters_processes() &&
	       tasks_with_memory(ev->pid) == ev->pid;
}

/* All sites of one file by one link. */
static int attach_multi(struct trapline_event *ev, const struct uprobe_site *sites, size_t count,
			int kind)
{
	struct uprobe_multi link = {
		.prog_fd = (uint32_t)ev->links.programs[kind],
		.attach_type = UPROBE_MULTI_ATTACH,
		.path = (uintptr_t)sites[0].file.path,
		.count = (uint32_t)count,
		.pid = is_for_one_process(ev) ? (uint32_t)ev->pid : 0,
	};
	size_t bytes = 2 * count * sizeof(uint64_t);
	uint64_t *numbers = memory_map(bytes);

	if (memory_failed(numbers))
		return memory_error(numbers);
	for (size_t i = 0; i < count; i++) {
		numbers[i] = sites[i].offset;
		numbers[count + i] = sites[i].address;
	}
	link.offsets = (uintptr_t)numbers;
	link.cookies = (uintptr_t)(numbers + count);
	int fd = uprobe_link_new(&link, sizeof(link));
	memory_unmap(numbers, bytes);
	return fd < 0 ? fd : keep_link(ev, fd);
}

/*
 * The program of an event runs before the kernel asks which CPU the event is for. One event on any
 * CPU sees the hits of all, and a second would see each of them again.
 */
static int attach_by_cpu(struct trapline_event *ev, const struct uprobe_site *site, int kind,
			 int type, int cpu)
{
	struct perf_event_attr attr;
	union bpf_attr link;

	memset(&attr, 0, sizeof(attr));
	attr.size = sizeof(attr);
	attr.type = (uint32_t)type;
	attr.uprobe_path = (uintptr_t)site->file.path;
	attr.probe_offset = site->offset;
	int fd = (int)uprobe_call(SYS_perf_event_open, (long)(uintptr_t)&attr, -1, cpu, -1,
				  PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return fd;
	memset(&link, 0, sizeof(link));
	link.link_create.prog_fd = (uint32_t)ev->links.programs[kind];
	link.link_create.target_fd = (uint32_t)fd;
	link.link_create.attach_type = BPF_PERF_EVENT;
	link.link_create.perf_event.bpf_cookie = site->address;
	int link_fd = uprobe_link_new(&link, sizeof(link));
	if (link_fd < 0) {
		uprobe_link_close(fd);
		return link_fd;
	}
	/* The link before the event: while it is there it keeps the event armed. */
	int err = keep_link(ev, link_fd);
	if (err)
		uprobe_link_close(fd);
	return err ? err : keep_link(ev, fd);
}

static int attach_single(struct trapline_event *ev, const struct uprobe_site *sites, size_t count,
			 int kind)
{
	int cpus = (int)sysconf(_SC_NPROCESSORS_CONF);
	int type = uprobe_pmu_type();
	int err = type < 0 ? -EOPNOTSUPP : 0;

	for (size_t i = 0; !err && i < count; i++) {
		err = -ENODEV; /* that CPU is offline: the next one */
		for (int cpu = 0; err == -ENODEV && cpu < cpus; cpu++)
			err = attach_by_cpu(ev, &sites[i], kind, type, cpu);
	}
	return err;
}

static int attach_kind(struct trapline_event *ev, const struct uprobe_site *sites, size_t count,
		       int kind, int multi)
{
	size_t from = 0;
	int err = 0;

	if (!multi)
		return attach_single(ev, sites, count, kind);
	for (size_t i = 1; !err && i <= count; i++) {
		if (i < count && code_file_is_same(&sites[i].file, &sites[from].file))
			continue;
		err = attach_multi(ev, sites + from, i - from, kind);
		from = i;
	}
	return err;
}

static int load_program(struct trapline_event *ev, int kind, int ring_fd, int multi)
{
	ev->links.attach_type = multi ? UPROBE_MULTI_ATTACH : 0;
	int fd = program_load(ev, (uint32_t)kind, 0, ring_fd, NULL, 0);
	ev->links.programs[kind] = fd;
	return fd < 0 ? fd : 0;
}

/* How often each kind is set, and where. */
struct plan {
	const struct uprobe_site *sites[EVENT_LINK_KINDS];
	size_t count[EVENT_LINK_KINDS];
};

static size_t sites_bytes(const struct event_links *links)
{
	size_t count = 0;

	for (int kind = 0; kind < EVENT_LINK_KINDS; kind++)
		count += links->site_count[kind];
	return count * sizeof(*links->sites);
}

static int keep_sites(struct event_links *links, const struct plan *plan)
{
	struct uprobe_site *to;

	memcpy(links->site_count, plan->count, sizeof(plan->count));
	to = memory_map(sites_bytes(links));
	if (memory_failed(to)) {
		memset(links->site_count, 0, sizeof(links->site_count));
		return memory_error(to);
	}
	links->sites = to;
	for (int kind = 0; kind < EVENT_LINK_KINDS; kind++) {
		size_t count = plan->count[kind];

		if (count)
			memcpy(to, plan->sites[kind], count * sizeof(*to));
		to += count;
	}
	return 0;
}

int uprobe_is_at(const struct trapline_event *ev, uint64_t address)
{
	const struct event_links *links = &ev->links;

	return ev->mechanism == TRAPLINE_BY_UPROBE && links->sites &&
	       links->site_count[UPROBE_ENTRY] == 1 && !links->site_count[UPROBE_RETURN] &&
	       !links->site_count[UPROBE_LEAVE] && links->sites->address == address &&
	       links->sites->offset - links->sites->file.offset + links->sites->file.start ==
		       address;
}

/* Returns first: no entry is seen whose return is not. */
static int attach_sites(struct trapline_event *ev, int multi)
{
	const struct event_links *links = &ev->links;
	const struct uprobe_site *sites = links->sites + sites_bytes(links) / sizeof(*links->sites);
	int err = 0;

	for (int kind = EVENT_LINK_KINDS; !err && kind--;) {
		sites -= links->site_count[kind];
		if (links->site_count[kind])
			err = attach_kind(ev, sites, links->site_count[kind], kind, multi);
	}
	return err;
}

static int attach_all(struct trapline_event *ev, const struct plan *plan, int ring_fd,
		      const char **why)
{
	int multi = uprobe_has_multi();
	int err = keep_sites(&ev->links, plan);
	size_t count = sites_bytes(&ev->links) / sizeof(struct uprobe_site);

	if (err)
		return err;
	if (!multi && count > SINGLE_SITES_MAX) {
		*why = "this kernel has no uprobe-multi links (Linux 6.6): 64 locations at most";
		return -EOPNOTSUPP;
	}
	*why = "the BPF program was refused";
	if (ev->flags & TRAPLINE_RETURNS)
		ev->links.calls_fd = program_calls_open();
	if (ev->links.calls_fd < 0)
		return ev->links.calls_fd;
	for (int kind = 0; !err && kind < EVENT_LINK_KINDS; kind++)
		err = plan->count[kind] ? load_program(ev, kind, ring_fd, multi) : 0;
	if (err)
		return err;
	*why = "cannot set uprobes there";
	return attach_sites(ev, multi);
}

static int find_exits(struct trapline_event *ev, const struct uprobe_site *sites, size_t count,
		      struct uprobe_exits *exits, const char **why)
{
	return ev->flags & TRAPLINE_RETURNS ?
		       uprobe_exits_find(tasks_with_memory(ev->pid), sites, count, exits, why) :
		       0;
}

static int check_text(pid_t pid, const struct plan *plan, const char **why)
{
	int err = 0;

	for (int kind = 0; !err && kind < EVENT_LINK_KINDS; kind++)
		err = uprobe_text_check(pid, plan->sites[kind], plan->count[kind], why);
	return err;
}

int uprobes_open(struct trapline_event *ev, const uint64_t *addrs, size_t count, int ring_fd,
		 const char **why)
{
	struct uprobe_site *sites = calloc(count, sizeof(*sites));
	struct uprobe_exits exits = { 0 };

	*why = "out of memory";
	for (int kind = 0; kind < EVENT_LINK_KINDS; kind++)
		ev->links.programs[kind] = -1;
	if (!sites)
		return -ENOMEM;
	*why = "that code is not from a file: only a hardware breakpoint works there";
	int err = find_sites(tasks_with_memory(ev->pid), addrs, count, sites);
	/* Returns are those of the functions, whose entries may be placed elsewhere. */
	if (!err)
		err = find_exits(ev, sites, count, &exits, why);
	if (!err)
		err = uprobe_places_find(tasks_with_memory(ev->pid), sites, count, why);
	if (!err)
		err = uprobe_filter_read(ev->pid, &ev->links.filter);
	if (!err && event_has_members(ev))
		err = uprobe_members_open(ev, why);
	if (!err && event_has_members(ev))
		err = uprobe_members_follow(ev, why);
	const struct plan plan = {
		.sites = { sites, exits.returns.sites, exits.leaves.sites },
		.count = { count, exits.returns.count, exits.leaves.count },
	};
	if (!err)
		err = check_text(tasks_with_memory(ev->pid), &plan, why);
	if (!err)
		err = attach_all(ev, &plan, ring_fd, why);
	uprobe_exits_free(&exits);
	free(sites);
	if (err)
		uprobes_close(ev);
	return err;
}

/* Entries first: no entry is seen whose return is not. */
static void detach_sites(struct event_links *links)
{
	while (links->count)
		uprobe_link_close(links->fds[--links->count]);
}

enum uprobe_rest {
	REST_NOT,
	REST_CHANGES,
	REST_FULL
};

int uprobes_rest(struct trapline_event *ev)
{
	uint32_t state = REST_NOT;

	if (!atomic_cas(&ev->links.rest, &state, REST_CHANGES))
		return state == REST_FULL ? 0 : -EBUSY;
	detach_sites(&ev->links);
	atomic_set(&ev->links.rest, (uint32_t)REST_FULL);
	return 0;
}

int uprobes_attach_again(struct trapline_event *ev)
{
	uint32_t state = REST_FULL;

	if (!atomic_cas(&ev->links.rest, &state, REST_CHANGES))
		return state == REST_NOT ? 0 : -EBUSY;
	int err = attach_sites(ev, uprobe_has_multi());
	if (err)
		detach_sites(&ev->links);
	atomic_set(&ev->links.rest, (uint32_t)(err ? REST_FULL : REST_NOT));
	return err;
}

void uprobes_close(struct trapline_event *ev)
{
	struct event_links *links = &ev->links;

	detach_sites(links);
	if (sites_bytes(links))
		memory_unmap(links->sites, sites_bytes(links));
	if (links->capacity)
		memory_unmap(links->fds, links->capacity * sizeof(int));
	for (int kind = 0; kind < EVENT_LINK_KINDS; kind++)
		if (links->programs[kind] > 0)
			sys_close(links->programs[kind]);
	if (links->calls_fd > 0)
		sys_close(links->calls_fd);
	uprobe_members_close(ev);
	memset(links, 0, sizeof(*links));
}
