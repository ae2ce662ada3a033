/* SPDX-License-Identifier: MIT */
/*
 * probe_uprobe.c - probes of uprobes on a function of Trapline's own text.
 *
 * Closing a perf uprobe waits for RCU, 0.1 s each: few are opened, and the exit of the
 * child closes them.
 */
#include "check/probe.h"
#include "base/maps.h"
#include "check/probe_uprobe.h"
#include "check/probe_util.h"

#include <errno.h>
#include <limits.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/ebpf.h"
#include "base/sys.h"
#include "check/probe_arch.h"
#include "event/uprobe/uprobe_filter.h"
#include "event/uprobe/uprobe_nops.h"

/* Where a function of Trapline lies on disk. */
struct place {
	char path[PATH_MAX];
	uint64_t offset;
};

static struct place place;
static struct ebpf program;

static int place_find(uintptr_t addr)
{
	struct maps_row row;
	int err = maps_find(0, addr, place.path, sizeof(place.path), &row);

	if (!err && place.path[0] != '/')
		err = -ENOENT;
	if (!err)
		place.offset = addr - row.start + row.offset;
	return err;
}

/* A uprobe at probe_site(), counting. Returns a descriptor or -errno. */
static int uprobe_open(const char **tried)
{
	struct perf_event_attr attr;
	int type = probe_read_number("/sys/bus/event_source/devices/uprobe/type", -1);

	*tried = "type in /sys/bus/event_source/devices/uprobe";
	if (type < 0)
		return -ENOENT;
	*tried = "own text in /proc/self/maps";
	int err = place_find((uintptr_t)probe_site);
	if (err)
		return err;
	*tried = "opening a uprobe in this program";
	memset(&attr, 0, sizeof(attr));
	attr.type = (uint32_t)type;
	attr.uprobe_path = (uintptr_t)place.path;
	attr.probe_offset = place.offset;
	return probe_open(&attr, 0, -1);
}

/* What opening and closing takes decides how many one can have: it is part of the
 * evidence. */
void probe_uprobe(struct probe_result *r)
{
	const char *tried;
	uint64_t start = clock_now_ns();
	int fd = uprobe_open(&tried);

	if (fd == -ENOENT)
		return probe_no(r,
				"use a kernel with CONFIG_UPROBE_EVENTS, and mount /sys and /proc",
				"%s: ENOENT", tried);
	if (fd < 0 && !probe_has_cap(CAP_SYS_ADMIN))
		return probe_no(r,
				"run as root: uprobes need CAP_SYS_ADMIN outside user namespaces",
				"%s: %s", tried, strerrorname_np(-fd));
	if (fd < 0)
		return probe_refused(r, fd, tried, 0);
	uint64_t opened = clock_now_ns();
	for (int i = 0; i < PROBE_HITS; i++)
		probe_site();
	uint64_t n = probe_count(fd);
	uint64_t closing = clock_now_ns();
	sys_close(fd);
	probe_say(r, n == PROBE_HITS, "use a kernel with CONFIG_UPROBE_EVENTS",
		  "%u calls of a function: %llu hits; open %llu us, close %llu us", PROBE_HITS,
		  (unsigned long long)n, (unsigned long long)(opened - start) / 1000,
		  (unsigned long long)(clock_now_ns() - closing) / 1000);
}

/* Counts its runs in a map, and vetoes. expected_attach is 0 except for uprobe-multi. */
static int program_load(int *map, uint32_t expected_attach)
{
	union bpf_attr attr;

	*map = ebpf_map_create(BPF_MAP_TYPE_ARRAY, 4, 8, 1, 0);
	if (*map < 0)
		return *map;
	ebpf_load_map_value(&program, R1, *map, 0);
	ebpf_mov_imm(&program, R2, 1);
	ebpf_atomic(&program, BPF_ADD, R1, 0, R2);
	ebpf_mov_imm(&program, R0, 0);
	ebpf_exit(&program);
	memset(&attr, 0, sizeof(attr));
	attr.prog_type = BPF_PROG_TYPE_KPROBE;
	attr.insns = (uintptr_t)program.insns;
	attr.insn_cnt = program.count;
	attr.license = (uintptr_t) "Dual MIT/GPL";
	attr.expected_attach_type = expected_attach;
	return sys_bpf(BPF_PROG_LOAD, &attr, sizeof(attr));
}

static unsigned int runs_of(int map)
{
	const uint32_t key = 0;
	uint64_t value = 0;

	ebpf_map_read(map, &key, &value);
	return (unsigned int)value;
}

void probe_uprobe_multi(struct probe_result *r)
{
	struct uprobe_multi link = { .attach_type = UPROBE_MULTI_ATTACH, .count = 1 };
	int map;
	int prog = program_load(&map, UPROBE_MULTI_ATTACH);

	if (prog == -EINVAL)
		return probe_no(r, "use kernel 6.6 or later",
				"loading a program for attach type %d: EINVAL",
				UPROBE_MULTI_ATTACH);
	if (prog < 0)
		return probe_bpf_refused(r, prog, "loading a program for uprobes");
	if (place_find((uintptr_t)probe_site))
		return probe_no(r, "mount /proc", "this program in /proc/self/maps: ENOENT");
	link.prog_fd = (uint32_t)prog;
	link.path = (uintptr_t)place.path;
	link.offsets = (uintptr_t)&place.offset;
	link.pid = (uint32_t)sys_getpid();
	uint64_t start = clock_now_ns();
	int fd = sys_bpf(BPF_LINK_CREATE, (union bpf_attr *)&link, sizeof(link));
	if (fd == -EINVAL || fd == -E2BIG || fd == -EOPNOTSUPP)
		return probe_no(r, "use kernel 6.6 or later", "linking: %s", strerrorname_np(-fd));
	if (fd < 0)
		return probe_bpf_refused(r, fd, "linking a uprobe-multi program");
	uint64_t opened = clock_now_ns();
	for (int i = 0; i < PROBE_HITS; i++)
		probe_site();
	unsigned int n = runs_of(map);
	probe_say(r, n == PROBE_HITS, "use kernel 6.6 or later",
		  "%u calls of a function: the program ran %u times; link %llu us", PROBE_HITS, n,
		  (unsigned long long)(opened - start) / 1000);
}

/* Where it is "no", events find another location (event/uprobe/uprobe_place.h). */
void probe_uprobe_nops(struct probe_result *r)
{
	uint32_t writes = 0;
	char lengths[64] = "";
	int err = uprobe_nops_ask(&writes);

	if (err)
		return probe_no(r,
				"run as root: uprobes need CAP_SYS_ADMIN outside user namespaces",
				"uprobes on nops: %s", strerrorname_np(-err));
	for (unsigned int n = UPROBE_NOP_MIN; n <= UPROBE_NOP_MAX; n++)
		if (writes >> n & 1)
			snprintf(lengths + strlen(lengths), sizeof(lengths) - strlen(lengths),
				 "%s%u", lengths[0] ? ", " : "", n);
	probe_say(r, !writes, "none: breakpoints on such nops are moved, or need a register",
		  "a uprobe on a nop of %s bytes %s below the stack pointer",
		  writes ? lengths : "5 to 11", writes ? "writes" : "does not write");
}

static void call_site(void *arg)
{
	(void)arg;
	probe_site();
}

double probe_cost_uprobe(void)
{
	const char *ignored;

	if (uprobe_open(&ignored) < 0)
		return -1;
	return probe_median(call_site, NULL, 500);
}

double probe_cost_uprobe_bpf(void)
{
	const char *ignored;
	int map;
	int prog = program_load(&map, 0);
	int fd = uprobe_open(&ignored);

	if (prog < 0 || fd < 0)
		return -1;
	if (sys_ioctl(fd, PERF_EVENT_IOC_SET_BPF, (uintptr_t)prog))
		return -1;
	double ns = probe_median(call_site, NULL, 500);
	return runs_of(map) ? ns : -1;
}
