/* SPDX-License-Identifier: MIT */
/*
 * outside_cpus.c - the watch: a breakpoint event on each CPU, which sees all threads.
 *
 * It is for reads and writes always: changing that makes the kernel wait for all CPUs. The kernel's
 * own accesses do not hit, so the programs may read what is watched.
 *
 * A CPU has a register for it only while no thread of the machine uses all four. Else the watch is
 * an event in each thread of the process, which later threads inherit. Moving it takes some
 * microseconds for each thread then.
 */
#include "base/sys.h"
#include "base/tasks.h"
#include "event/fires.h"
#include "outside/outside_priv.h"

#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <sched.h>
#include <string.h>
#include <sys/sysinfo.h>

static int open_one(struct outside_cpus *c, pid_t tid, int cpu)
{
	struct perf_event_attr attr = c->attr;

	if (c->count == OUTSIDE_EVENTS_MAX)
		return -E2BIG;
	int fd = sys_perf_event_open(&attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return fd;
	int err = sys_ioctl(fd, PERF_EVENT_IOC_SET_BPF, (uintptr_t)c->program);
	if (err) {
		sys_close(fd);
		return err;
	}
	c->fds[c->count++] = fd;
	return 0;
}

static int open_on_cpus(struct outside_cpus *c)
{
	int there = get_nprocs_conf();
	int err = 0;

	for (int cpu = 0; !err && cpu < there; cpu++) {
		err = open_one(c, -1, cpu);
		err = err == -ENODEV ? 0 : err; /* it is off */
	}
	return !err && c->count < (uint32_t)get_nprocs() ? -ENODEV : err;
}

static bool fires_on_all(void)
{
	cpu_set_t allowed;
	cpu_set_t one;
	bool fires = true;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return event_register_fires();
	for (size_t cpu = 0; fires && cpu < CPU_SETSIZE; cpu++) {
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		if (CPU_ISSET(cpu, &allowed) && !sched_setaffinity(0, sizeof(one), &one))
			fires = event_register_fires();
	}
	sched_setaffinity(0, sizeof(allowed), &allowed);
	return fires;
}

static int open_in_thread(void *arg, pid_t tid)
{
	int err = open_one(arg, tid, -1);

	return err == -ESRCH ? 0 : err; /* it has ended */
}

static int open_in_threads(struct outside_cpus *c, pid_t pid)
{
	struct task_names names;

	c->attr.inherit = 1;
	c->attr.inherit_thread = 1;
	return tasks_each(pid, &names, open_in_thread, c);
}

int outside_cpus_open(struct outside_cpus *c, int program, pid_t pid)
{
	static const uint64_t anywhere = 1u << 20; /* it is moved before it is enabled */

	memset(c, 0, sizeof(*c));
	c->program = program;
	c->attr.size = sizeof(c->attr);
	c->attr.type = PERF_TYPE_BREAKPOINT;
	c->attr.bp_type = HW_BREAKPOINT_RW;
	c->attr.bp_addr = anywhere;
	c->attr.bp_len = 8;
	c->attr.sample_period = 1;
	c->attr.disabled = 1;
	c->attr.exclude_kernel = 1;
	c->attr.exclude_hv = 1;
	c->fires = fires_on_all();
	if (!c->fires)
		return 0;
	int err = open_on_cpus(c);
	c->is_on_cpus = !err;
	if (err) {
		outside_cpus_close(c);
		err = open_in_threads(c, pid);
	}
	if (err)
		outside_cpus_close(c);
	return err;
}

void outside_cpus_close(struct outside_cpus *c)
{
	for (uint32_t i = 0; i < c->count; i++)
		sys_close(c->fds[i]);
	c->count = 0;
}

int outside_cpus_watch(struct outside_cpus *c, uint64_t address, uint32_t len)
{
	struct perf_event_attr attr = c->attr;
	int err = 0;

	attr.bp_addr = address;
	attr.bp_len = len;
	attr.disabled = 0;
	for (uint32_t i = 0; !err && i < c->count; i++)
		err = sys_ioctl(c->fds[i], PERF_EVENT_IOC_MODIFY_ATTRIBUTES, (uintptr_t)&attr);
	if (err)
		outside_cpus_rest(c);
	return err;
}

void outside_cpus_rest(struct outside_cpus *c)
{
	for (uint32_t i = 0; i < c->count; i++)
		sys_ioctl(c->fds[i], PERF_EVENT_IOC_DISABLE, 0);
}
