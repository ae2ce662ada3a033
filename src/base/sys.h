/* SPDX-License-Identifier: MIT */
/*
 * sys.h - system calls that return -errno and never touch errno.
 *
 * A handler interrupts code between a failed call and its use of errno, so nothing on the trap path
 * may go through libc's wrappers.
 */
#ifndef BASE_SYS_H
#define BASE_SYS_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#include "base/arch_syscall.h"
#include "base/own_fd.h"

struct perf_event_attr;
union bpf_attr;

#define sys0(nr) arch_syscall6(nr, 0, 0, 0, 0, 0, 0)
#define sys1(nr, a) arch_syscall6(nr, (long)(a), 0, 0, 0, 0, 0)
#define sys2(nr, a, b) arch_syscall6(nr, (long)(a), (long)(b), 0, 0, 0, 0)
#define sys3(nr, a, b, c) arch_syscall6(nr, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define sys4(nr, a, b, c, d) arch_syscall6(nr, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define sys5(nr, a, b, c, d, e) \
	arch_syscall6(nr, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)
#define sys6(nr, a, b, c, d, e, f) \
	arch_syscall6(nr, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

static inline int sys_perf_event_open(struct perf_event_attr *attr, pid_t pid, int cpu,
				      int group_fd, unsigned long flags)
{
	return (int)sys5(SYS_perf_event_open, attr, pid, cpu, group_fd, flags);
}

/* A call whose first argument is a descriptor, also one of Trapline's own table. */
static inline long sys_of_fd_args(long nr, int fd, long b, long c, long d, long e)
{
	return fd < OWN_FD_FAR ? arch_syscall6(nr, fd, b, c, d, e, 0) :
				 own_fd_far(nr, fd, b, c, d, e);
}

#define sys_of_fd(nr, fd, b, c, d, e) \
	sys_of_fd_args(nr, fd, (long)(b), (long)(c), (long)(d), (long)(e))

static inline long sys_mmap(void *address, size_t bytes, int protection, int flags, int fd,
			    uint64_t offset)
{
	return fd < OWN_FD_FAR ? sys6(SYS_mmap, address, bytes, protection, flags, fd, offset) :
				 own_fd_far_map((long)(uintptr_t)address, (long)bytes, protection,
						flags, fd, (long)offset);
}

static inline int sys_ioctl(int fd, unsigned long request, uintptr_t arg)
{
	return (int)sys_of_fd(SYS_ioctl, fd, request, arg, 0, 0);
}

static inline int sys_close(int fd)
{
	return (int)sys_of_fd(SYS_close, fd, 0, 0, 0, 0);
}

static inline ssize_t sys_read(int fd, void *buf, size_t n)
{
	return sys_of_fd(SYS_read, fd, buf, n, 0, 0);
}

static inline ssize_t sys_write(int fd, const void *buf, size_t n)
{
	return sys3(SYS_write, fd, buf, n);
}

static inline int sys_bpf(int cmd, union bpf_attr *attr, size_t size)
{
	return (int)sys3(SYS_bpf, cmd, attr, size);
}

static inline pid_t sys_gettid(void)
{
	return (pid_t)sys0(SYS_gettid);
}

static inline pid_t sys_getpid(void)
{
	return (pid_t)sys0(SYS_getpid);
}

static inline int sys_tgkill(pid_t pid, pid_t tid, int sig)
{
	return (int)sys3(SYS_tgkill, pid, tid, sig);
}

static inline int sys_sched_yield(void)
{
	return (int)sys0(SYS_sched_yield);
}

/*
 * Sleeps. It is not nanosleep(2), which discards what the kernel keeps to continue a call that
 * ptrace interrupted. A function that is called in a stopped thread would end its sleep early.
 */
static inline int sys_nap(const struct timespec *time)
{
	struct timespec left = *time; /* ppoll(2) writes there */

	return (int)sys6(SYS_ppoll, NULL, 0, &left, NULL, 0, 0);
}

/* Copies from pid's memory without faulting and without hitting a watch on it. */
static inline ssize_t sys_read_memory(pid_t pid, uint64_t addr, void *buf, size_t n)
{
	struct iovec local = { buf, n };
	struct iovec remote = { (void *)(uintptr_t)addr, n };

	long got = sys6(SYS_process_vm_readv, pid, &local, 1, &remote, 1, 0);

	/*
	 * The first thread, whose number the process has, may have ended, and its memory with it.
	 */
	if (got == -ESRCH && pid == sys_getpid())
		got = sys6(SYS_process_vm_readv, sys_gettid(), &local, 1, &remote, 1, 0);
	return got;
}

#endif
