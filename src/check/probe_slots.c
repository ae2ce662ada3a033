/* SPDX-License-Identifier: MIT */
/* probe_slots.c - probes of the debug registers: how many, which kinds, which lengths. */
#include "check/probe_slots.h"
#include "check/probe.h"
#include "check/probe_util.h"

#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <stdio.h>
#include <string.h>

#include "base/sys.h"
#include "check/probe_arch.h"

#define NO_REGISTERS "use a machine or virtual machine with debug registers"
#define SLOTS_MAX 32

void probe_watchpoint_slots(struct probe_result *r)
{
	static volatile uint64_t words[SLOTS_MAX] __attribute__((aligned(8)));
	struct perf_event_attr attr;
	int n = 0;
	int err = 0;

	for (; n < SLOTS_MAX; n++) {
		probe_attr_counting(&attr, &words[n], HW_BREAKPOINT_W, 8);
		err = probe_open(&attr, 0, -1);
		if (err < 0)
			break;
	}
	if (n == 0)
		return probe_refused(r, err, "opening a first watchpoint", 2);
	probe_attr_counting(&attr, (void *)(uintptr_t)probe_site, HW_BREAKPOINT_X, 8);
	int exec = probe_open(&attr, 0, -1);
	probe_say(r, n == SLOTS_MAX || err == -ENOSPC, "raise the limit of open files: ulimit -n",
		  "%d watchpoints in a thread, one more: %s; a breakpoint in addition: %s", n,
		  n == SLOTS_MAX ? "stopped trying" : strerrorname_np(-err),
		  exec < 0 ? strerrorname_np(-exec) : "yes");
}

/* Counts hits of writes and of reads. Returns 0 or -errno of the open. */
static int try_kind(uint32_t type, uint64_t *writes, uint64_t *reads)
{
	struct perf_event_attr attr;

	probe_attr_counting(&attr, &probe_word, type, 8);
	int fd = probe_open(&attr, 0, -1);
	if (fd < 0)
		return fd;
	probe_write_word(PROBE_HITS);
	*writes = probe_count(fd);
	for (int i = 0; i < PROBE_HITS; i++)
		probe_load(&probe_word);
	*reads = probe_count(fd) - *writes;
	return 0;
}

static void say_kind(struct probe_result *r, uint32_t type, const char *remedy)
{
	uint64_t want_writes = type & HW_BREAKPOINT_W ? PROBE_HITS : 0;
	uint64_t want_reads = type & HW_BREAKPOINT_R ? PROBE_HITS : 0;
	uint64_t writes = 0;
	uint64_t reads = 0;
	int err = try_kind(type, &writes, &reads);

	probe_say(r, writes == want_writes && reads == want_reads, remedy,
		  "%u writes and %u reads: %llu and %llu hits", PROBE_HITS, PROBE_HITS,
		  (unsigned long long)writes, (unsigned long long)reads);
	if (err && (err != -EINVAL || type != HW_BREAKPOINT_R))
		probe_refused(r, err, "opening a watchpoint", 2);
	else if (err)
		probe_no(r, remedy, "opening a watchpoint for reads only: %s",
			 strerrorname_np(-err));
}

void probe_watch_write(struct probe_result *r)
{
	say_kind(r, HW_BREAKPOINT_W, NO_REGISTERS);
}

void probe_watch_read_write(struct probe_result *r)
{
	say_kind(r, HW_BREAKPOINT_RW, NO_REGISTERS);
}

void probe_watch_read_only(struct probe_result *r)
{
	say_kind(r, HW_BREAKPOINT_R, PROBE_READ_ONLY_REMEDY);
}

/* The byte before the watched ones must not hit, the first and last of them must. */
void probe_watch_lengths(struct probe_result *r)
{
	static volatile uint8_t bytes[32] __attribute__((aligned(16)));
	char text[PROBE_TEXT_MAX] = "";
	int all_ok = 1;

	for (int len = 1; len <= 8; len *= 2) {
		struct perf_event_attr attr;
		volatile uint8_t *at = bytes + 8;

		probe_attr_counting(&attr, at, HW_BREAKPOINT_W, (uint64_t)len);
		int fd = probe_open(&attr, 0, -1);
		if (fd < 0)
			return probe_refused(r, fd, "opening a watchpoint of 1 to 8 bytes", 2);
		for (int i = 0; i < PROBE_HITS; i++) {
			probe_store(at - 1, 1, 1);
			probe_store(at, len, 1);
			probe_store(at + len - 1, 1, 1);
			probe_store(at + len, 1, 1);
		}
		uint64_t n = probe_count(fd);
		sys_close(fd); /* alone: two watches of one byte are another question */
		size_t used = strlen(text);
		snprintf(text + used, sizeof(text) - used, "%s%d: %llu", used ? ", " : "", len,
			 (unsigned long long)n);
		all_ok &= n == 2 * PROBE_HITS;
	}
	probe_say(r, all_ok, NO_REGISTERS, "%d accesses inside and %d beside, hits by length: %s",
		  2 * PROBE_HITS, 2 * PROBE_HITS, text);
}

/* An emulated processor may report one watch of those that an instruction hits. */
void probe_watch_together(struct probe_result *r)
{
	struct perf_event_attr attr;
	uint64_t counts[2];
	int fds[2];

	for (int i = 0; i < 2; i++) {
		probe_attr_counting(&attr, &probe_word, HW_BREAKPOINT_W, 8);
		fds[i] = probe_open(&attr, 0, -1);
		if (fds[i] < 0)
			return probe_refused(r, fds[i], "opening two watchpoints", 2);
	}
	probe_write_word(PROBE_HITS);
	for (int i = 0; i < 2; i++)
		counts[i] = probe_count(fds[i]);
	probe_say(r, counts[0] == PROBE_HITS && counts[1] == PROBE_HITS,
		  "use a processor that is not emulated (QEMU: -accel kvm), or one watch only",
		  "%u writes of a variable watched twice: %llu and %llu hits", PROBE_HITS,
		  (unsigned long long)counts[0], (unsigned long long)counts[1]);
}

void probe_break_execute(struct probe_result *r)
{
	struct perf_event_attr attr;

	probe_attr_counting(&attr, (void *)(uintptr_t)probe_site, HW_BREAKPOINT_X, 8);
	int fd = probe_open(&attr, 0, -1);
	if (fd < 0)
		return probe_refused(r, fd, "opening a breakpoint", 2);
	for (int i = 0; i < PROBE_HITS; i++)
		probe_site();
	uint64_t n = probe_count(fd);
	probe_say(r, n == PROBE_HITS, NO_REGISTERS, "%u calls of a function: %llu hits", PROBE_HITS,
		  (unsigned long long)n);
}
