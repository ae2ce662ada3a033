/* SPDX-License-Identifier: MIT */
/* point_tracee.c - see point_tracee.h. */
#include "point/host/point_tracee.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/maps.h"

#define VDSO_BYTES 16384
#define SYSCALL_BYTES 2
#define NOTE_SHADOW_STACK 0x204 /* NT_X86_SHSTK of <linux/elf.h>, Linux 6.6 */
#define GET_RSEQ 0x420f		/* PTRACE_GET_RSEQ_CONFIGURATION, Linux 5.13 */
#define GET_DISPATCH 0x4211	/* PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG, Linux 6.4 */

/* ---- open and close ---- */

static uint64_t find_vdso(pid_t pid)
{
	struct maps maps;
	char name[8];
	uint64_t start = 0;

	maps_open(&maps, pid, name, sizeof(name));
	for (const struct maps_row *row; !start && (row = maps_next(&maps));)
		if (!strcmp(row->name, "[vdso]"))
			start = row->start;
	maps_close(&maps);
	return start;
}

static uint64_t find_syscall(const struct point_tracee *t)
{
	static uint8_t code[VDSO_BYTES];
	const uint64_t start = find_vdso(t->pid);
	const size_t n = start ? point_tracee_read(t, code, start, sizeof(code)) : 0;
	const uint8_t *at = n ? memmem(code, n, "\x0f\x05", SYSCALL_BYTES) : NULL;

	return at ? start + (uint64_t)(at - code) : 0;
}

int point_tracee_open(struct point_tracee *t)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/mem", t->pid);
	t->memory_fd = open(path, O_RDWR | O_CLOEXEC);
	if (t->memory_fd < 0)
		return -errno;
	t->syscall_at = find_syscall(t);
	if (t->syscall_at)
		return 0;
	point_tracee_close(t);
	return -ENOENT;
}

void point_tracee_close(struct point_tracee *t)
{
	if (t->memory_fd >= 0)
		close(t->memory_fd);
	t->memory_fd = -1;
}

/* ---- memory ---- */

size_t point_tracee_read(const struct point_tracee *t, void *to, uint64_t from, size_t n)
{
	const ssize_t got = pread(t->memory_fd, to, n, (off_t)from);

	return got < 0 ? 0 : (size_t)got;
}

int point_tracee_write(const struct point_tracee *t, uint64_t to, const void *from, size_t n)
{
	const struct iovec ours = { (void *)(uintptr_t)from, n };
	const struct iovec its = { (void *)(uintptr_t)to, n };
	const ssize_t got = process_vm_writev(t->pid, &ours, 1, &its, 1, 0);

	return got == (ssize_t)n ? 0 : got < 0 ? -errno : -EFAULT;
}

int point_tracee_write_code(const struct point_tracee *t, uint64_t to, const void *from, size_t n)
{
	const ssize_t got = pwrite(t->memory_fd, from, n, (off_t)to);

	return got == (ssize_t)n ? 0 : got < 0 ? -errno : -EFAULT;
}

/* ---- stops ---- */

void point_tracee_hold(struct point_tracee *t, const siginfo_t *info)
{
	/* One of a kind waits, as in the kernel: those that queue are blocked behind the first. */
	for (unsigned int i = 0; i < t->held_count; i++)
		if (t->held[i].si_signo == info->si_signo && info->si_signo < SIGRTMIN)
			return;
	if (t->held_count < POINT_WINDOW_HELD)
		t->held[t->held_count++] = *info;
}

/* A thread that executes a program takes the process's id: so it waits for any. */
static int wait_for(struct point_tracee *t)
{
	for (;;) {
		const pid_t got = waitpid(-1, &t->status, __WALL);

		if (got < 0 && errno != EINTR)
			return -errno;
		if (got != t->tid && got != t->pid)
			continue;
		t->tid = got;
		return 0;
	}
}

int point_tracee_go(struct point_tracee *t, int request, siginfo_t *info)
{
	for (;;) {
		if (ptrace(request, t->tid, NULL, NULL) && errno != ESRCH)
			return -errno;
		int err = wait_for(t);
		const int event = t->status >> 16;

		if (err)
			return err;
		if (!WIFSTOPPED(t->status) || (event && event != PTRACE_EVENT_STOP))
			return POINT_STOP_OTHER;
		if (!event && WSTOPSIG(t->status) == (SIGTRAP | 0x80))
			return POINT_STOP_CALL;
		if (!event)
			return ptrace(PTRACE_GETSIGINFO, t->tid, NULL, info) ? -errno :
									       POINT_STOP_SIGNAL;
		t->is_let_go |= WSTOPSIG(t->status) == SIGTRAP;
	}
}

/* ---- system calls ---- */

/* To the end of the call that the registers begin. */
static int finish_call(struct point_tracee *t, struct user_regs_struct *regs)
{
	const uint64_t behind = t->syscall_at + SYSCALL_BYTES;
	siginfo_t info;

	for (int stops = 0; stops < 2;) {
		int stop = point_tracee_go(t, PTRACE_SYSCALL, &info);

		if (stop < 0)
			return stop;
		if (stop == POINT_STOP_OTHER)
			return 1;
		if (stop == POINT_STOP_SIGNAL) {
			point_tracee_hold(t, &info);
			continue;
		}
		if (ptrace(PTRACE_GETREGS, t->tid, NULL, regs))
			return -errno;
		/* Else it is the end of one that was replaced by a stop. */
		stops += regs->rip == behind;
	}
	return 0;
}

int point_tracee_call(struct point_tracee *t, long number, const uint64_t args[6], long *result)
{
	const uint64_t all = ~UINT64_C(0);
	struct user_regs_struct saved;
	uint64_t mask;

	if (ptrace(PTRACE_GETREGS, t->tid, NULL, &saved) ||
	    ptrace(PTRACE_GETSIGMASK, t->tid, sizeof(mask), &mask) ||
	    ptrace(PTRACE_SETSIGMASK, t->tid, sizeof(all), &all))
		return -errno;
	struct user_regs_struct regs = saved;
	regs.rip = t->syscall_at;
	regs.rax = (uint64_t)number;
	regs.orig_rax = ~UINT64_C(0);
	regs.rdi = args[0];
	regs.rsi = args[1];
	regs.rdx = args[2];
	regs.r10 = args[3];
	regs.r8 = args[4];
	regs.r9 = args[5];
	int err = ptrace(PTRACE_SETREGS, t->tid, NULL, &regs) ? -errno : finish_call(t, &regs);
	*result = (long)regs.rax;
	if (err > 0)
		return err;
	if (ptrace(PTRACE_SETREGS, t->tid, NULL, &saved) ||
	    ptrace(PTRACE_SETSIGMASK, t->tid, sizeof(mask), &mask))
		return -errno;
	return err;
}

/*
 * A step from the stop of a system call that is not executed is reported at once, without an
 * instruction. From the stop at its end, it is one.
 */
int point_tracee_leave(struct point_tracee *t)
{
	siginfo_t info;
	int stop;

	do {
		stop = point_tracee_go(t, PTRACE_SYSCALL, &info);
		if (stop == POINT_STOP_SIGNAL)
			point_tracee_hold(t, &info);
	} while (stop == POINT_STOP_SIGNAL);
	return stop < 0 ? stop : stop == POINT_STOP_OTHER;
}

/* ---- what a window cannot take ---- */

bool point_tracee_is_filtered(const struct point_tracee *t)
{
	uint64_t dispatch[4] = { 0 };
	char path[40];
	char line[256];
	int mode = -1;

	if (!ptrace(GET_DISPATCH, t->tid, (void *)sizeof(dispatch), dispatch) && dispatch[0])
		return true;
	snprintf(path, sizeof(path), "/proc/%d/status", t->tid);
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Seccomp: %d", &mode) == 1)
			break;
	if (f)
		fclose(f);
	return mode != 0;
}

bool point_tracee_has_shadow_stack(const struct point_tracee *t)
{
	uint64_t ssp = 0;
	struct iovec io = { &ssp, sizeof(ssp) };

	return !ptrace(PTRACE_GETREGSET, t->tid, (void *)NOTE_SHADOW_STACK, &io);
}

int point_tracee_rseq(const struct point_tracee *t, uint64_t *at)
{
	struct {
		uint64_t at;
		uint32_t bytes;
		uint32_t signature;
		uint32_t flags;
		uint32_t unused;
	} rseq = { 0 };

	if (ptrace(GET_RSEQ, t->tid, (void *)sizeof(rseq), &rseq) < 0)
		return -errno;
	*at = rseq.at;
	return 0;
}
