/* SPDX-License-Identifier: MIT */
/*
 * attr.c - what is asked of perf_event_open() for each kind of event.
 *
 * MODIFY_ATTRIBUTES compares the whole attr with the kernel's copy except for five members, so the
 * attr made here is kept for the life of the event.
 */
#include "event/attr.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/hw_breakpoint.h>
#include <string.h>

#include "base/aligned.h"
#include "base/own_fd.h"
#include "base/sys.h"
#include "event/branches.h"
#include "event/event.h"

/*
 * Members newer than Debian 12's linux/perf_event.h would be set here; it has all that is needed.
 */

static void attr_begin(struct trapline_event *ev, uint32_t type, uint64_t config)
{
	struct perf_event_attr *attr = &ev->attr;

	memset(attr, 0, sizeof(*attr));
	attr->size = sizeof(*attr);
	attr->type = type;
	attr->config = config;
	attr->disabled = 1;
	attr->exclude_kernel = !(ev->flags & TRAPLINE_KERNEL);
	attr->exclude_hv = 1;
	if (ev->scope == TRAPLINE_PROCESS) {
		attr->inherit = 1;
		/* Linux commit 2b26f0aa0004 ("perf: Support only inheriting events if cloned
		 * with CLONE_THREAD"), v5.13. */
		attr->inherit_thread = !(ev->flags & TRAPLINE_FOLLOW_FORKS);
	}
	/* Linux commit 2e498d0a74e5 ("perf: Add support for event removal on exec"), v5.13. */
	attr->remove_on_exec = 1;
}

int event_describe_range(struct trapline_event *ev, uint64_t addr, size_t len,
			 enum trapline_access access)
{
	if (len == 0 || len > 8 * EVENT_PARTS_MAX || addr + len < addr)
		return -EINVAL;
	if (access != TRAPLINE_WRITE && access != TRAPLINE_READ_WRITE)
		return -EINVAL;

	ev->access = access;
	ev->part_count = 0;
	while (len) {
		uint32_t n = aligned_part(addr, len);

		if (ev->part_count == EVENT_PARTS_MAX)
			return -E2BIG;
		ev->parts[ev->part_count++] = (struct event_part){ addr, n };
		addr += n;
		len -= n;
	}
	attr_begin(ev, PERF_TYPE_BREAKPOINT, 0);
	ev->attr.bp_type = access == TRAPLINE_WRITE ? HW_BREAKPOINT_W : HW_BREAKPOINT_RW;
	ev->attr.sample_period = 1;
	return 0;
}

int event_describe_code(struct trapline_event *ev, uint64_t addr)
{
	ev->access = TRAPLINE_EXECUTE;
	ev->part_count = 1;
	ev->parts[0] = (struct event_part){ addr, sizeof(long) };
	attr_begin(ev, PERF_TYPE_BREAKPOINT, 0);
	ev->attr.bp_type = HW_BREAKPOINT_X;
	ev->attr.sample_period = 1;
	return 0;
}

static const struct {
	uint32_t type;
	uint64_t config;
} counters[] = {
	[TRAPLINE_TASK_CLOCK] = { PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK },
	[TRAPLINE_PAGE_FAULTS] = { PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS },
	[TRAPLINE_CONTEXT_SWITCHES] = { PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES },
	[TRAPLINE_MIGRATIONS] = { PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS },
	[TRAPLINE_INSTRUCTIONS] = { PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS },
	[TRAPLINE_CYCLES] = { PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES },
	[TRAPLINE_BRANCHES] = { PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS },
};

/* The number of the tracepoint raw_syscalls:sys_enter in this kernel. 0 or -errno. */
static int find_syscalls(uint64_t *config)
{
	static const char *const paths[] = {
		"/sys/kernel/tracing/events/raw_syscalls/sys_enter/id",
		"/sys/kernel/debug/tracing/events/raw_syscalls/sys_enter/id",
	};
	char text[16];
	ssize_t n = -ENOENT;

	for (size_t i = 0; n < 0 && i < sizeof(paths) / sizeof(paths[0]); i++) {
		int fd = own_fd_open(paths[i], O_RDONLY);

		if (fd < 0)
			continue;
		n = sys_read(fd, text, sizeof(text));
		sys_close(fd);
	}
	*config = 0;
	for (ssize_t i = 0; i < n && text[i] >= '0' && text[i] <= '9'; i++)
		*config = *config * 10 + (uint64_t)(text[i] - '0');
	return *config ? 0 : -EOPNOTSUPP;
}

int event_describe_counter(struct trapline_event *ev, enum trapline_counter what, uint64_t period)
{
	uint32_t type = PERF_TYPE_RAW;
	uint64_t config = 0;

	int err = 0;

	if (what == TRAPLINE_CONDITIONAL_BRANCHES) {
		err = branches_conditional(&config);
	} else if (what == TRAPLINE_SYSCALLS && !period) {
		type = PERF_TYPE_TRACEPOINT;
		err = find_syscalls(&config);
	} else if ((size_t)what < sizeof(counters) / sizeof(counters[0])) {
		type = counters[what].type;
		config = counters[what].config;
	} else {
		return -EINVAL;
	}
	if (err)
		return err;
	ev->access = TRAPLINE_AMOUNT;
	ev->part_count = 1;
	ev->period = period;
	ev->counter = what;
	attr_begin(ev, type, config);
	ev->attr.sample_period = period;
	/* Its hits are in the kernel, all of them. */
	if (type == PERF_TYPE_TRACEPOINT)
		ev->attr.exclude_kernel = 0;
	/* Never out of the PMU while the thread runs: a share of the time would be a guess. */
	ev->attr.pinned = !period && ev->only_tid && type != PERF_TYPE_SOFTWARE &&
			  type != PERF_TYPE_TRACEPOINT;
	return 0;
}

void event_attr_for_part(const struct trapline_event *ev, uint32_t part,
			 struct perf_event_attr *attr)
{
	*attr = ev->attr;
	if (event_is_breakpoint(ev)) {
		attr->bp_addr = event_parks(ev) && !ev->applied ? EVENT_PARKED_AT :
								  ev->parts[part].addr;
		attr->bp_len = ev->parts[part].len;
	}
	/* Linux commit 97ba62b27867 ("perf: Add support for SIGTRAP on perf events"), v5.13. */
	attr->sigtrap = ev->mechanism == TRAPLINE_BY_SIGNAL && attr->sample_period;
	if (attr->sigtrap)
		attr->sig_data = event_sig_data(ev, part);
	/* Nothing to attach first: enabling at once saves a call to the thread's CPU. */
	if (event_opens_enabled(ev))
		attr->disabled = !ev->wanted && !event_parks(ev);
}
