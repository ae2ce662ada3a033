/* SPDX-License-Identifier: MIT */
/*
 * veto.c - can a BPF program suppress the signal of a hit? Tried once, in this thread, with a page
 * fault: it needs no debug register and nothing notices it.
 *
 * Before Linux commit c4fcc7d1f415, v6.10, a verdict of 0 suppresses the record only. The trial
 * goes through the handler as any event does, so it must be installed.
 */
#include "trap/veto.h"

#include <errno.h>
#include <signal.h>

#include "base/atomic.h"
#include "base/ebpf.h"
#include "base/memory.h"
#include "base/sys.h"
#include "event/attr.h"
#include "event/event.h"
#include "event/table.h"

enum {
	UNKNOWN,
	CANNOT,
	CAN
};

static uint32_t signals;

static enum trapline_action note_signal(const struct trapline_hit *hit)
{
	atomic_add(&signals, 1u);
	return TRAPLINE_GO_ON;
}

static int load_refusal(void)
{
	struct ebpf *p = memory_map(
		sizeof(*p)); /* as a target: calloc() would make an arena in a thread of Trapline */

	if (memory_failed(p))
		return (int)memory_error(p);
	ebpf_mov_imm(p, R0, 0);
	ebpf_exit(p);
	int fd = ebpf_load(p, BPF_PROG_TYPE_PERF_EVENT, NULL, 0);
	memory_unmap(p, sizeof(*p));
	return fd;
}

/* One fault in a page that was never touched. */
static int touch_fresh_page(void)
{
	volatile char *page = memory_map(PAGE_BYTES);

	if (memory_failed((void *)(uintptr_t)page))
		return memory_error((void *)(uintptr_t)page);
	*page = 1;
	memory_unmap((void *)(uintptr_t)page, PAGE_BYTES);
	return 0;
}

/* Faults that the kernel counted while a program rejected them all, or -errno. */
static int64_t reject_faults(struct trapline_event *ev, int program)
{
	uint64_t faults = 0;
	struct perf_event_attr attr;

	event_attr_for_part(ev, 0, &attr);
	attr.disabled = 1;
	int fd = sys_perf_event_open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return fd;
	int64_t err = sys_ioctl(fd, PERF_EVENT_IOC_SET_BPF, (uintptr_t)program);
	if (!err)
		err = sys_ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	if (!err)
		err = touch_fresh_page();
	sys_ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	if (!err && sys_read(fd, &faults, sizeof(faults)) != sizeof(faults))
		err = -EIO;
	sys_close(fd);
	return err ? err : (int64_t)faults;
}

/* Blocked, a signal would wait and be taken for one that did not come. */
static int trap_is_blocked(void)
{
	uint64_t mask = 0;

	sys4(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, sizeof(mask));
	return (mask >> (SIGTRAP - 1) & 1) != 0;
}

static uint32_t try_veto(void)
{
	struct trapline_event *ev = event_take();
	int program = ev ? load_refusal() : -ENFILE;
	uint32_t answer = UNKNOWN;

	if (program >= 0) {
		ev->pid = ev->owner_pid = sys_getpid();
		ev->mechanism = TRAPLINE_BY_SIGNAL;
		ev->scope = TRAPLINE_CALLER;
		ev->callback = note_signal;
		event_describe_counter(ev, TRAPLINE_PAGE_FAULTS, 1);
		uint32_t before = atomic_get(&signals);
		int64_t faults = reject_faults(ev, program);
		if (faults > 0)
			answer = atomic_get(&signals) == before ? CAN : CANNOT;
		sys_close(program);
	}
	if (ev)
		event_give(ev);
	return answer;
}

int trap_can_veto(void)
{
	static uint32_t known;
	uint32_t answer = atomic_get(&known);

	if (answer == UNKNOWN && !trap_is_blocked()) {
		answer = try_veto();
		atomic_set(&known, answer);
	}
	return answer == CAN;
}
