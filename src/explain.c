/* SPDX-License-Identifier: MIT */
/* explain.c - why a call failed, and what helps. perf_event_open()'s bare numbers help nobody. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/sys.h"
#include "event/event.h"
#include "target.h"

static __thread struct {
	int err;
	enum failed_step step;
	const char *what;
} last;

int failed(int err, enum failed_step step, const char *what)
{
	/* The deepest note is the best one: an outer call does not write over it. */
	if (what || last.err != err || !last.what) {
		last.err = err;
		last.step = step;
		last.what = what;
	}
	return err;
}

static int read_number(const char *path, int otherwise)
{
	char text[32] = "";
	int fd = (int)sys4(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);

	if (fd < 0)
		return otherwise;
	ssize_t n = sys_read(fd, text, sizeof(text) - 1);
	sys_close(fd);
	int number = otherwise;
	if (n > 0)
		sscanf(text, "%d", &number);
	return number;
}

static int explain_permission(int err, char *buf, size_t n)
{
	int paranoid = read_number("/proc/sys/kernel/perf_event_paranoid", -2);
	int yama = read_number("/proc/sys/kernel/yama/ptrace_scope", 0);

	if (err == -EPERM)
		return snprintf(buf, n,
				"perf_event_open is forbidden (EPERM), most likely by a container's "
				"seccomp profile: allow perf_event_open and bpf, or give CAP_PERFMON "
				"and CAP_BPF");
	if (paranoid > 2)
		return snprintf(buf, n,
				"kernel.perf_event_paranoid is %d, which forbids it without "
				"CAP_SYS_ADMIN: run as root, or sysctl kernel.perf_event_paranoid=2",
				paranoid);
	return snprintf(buf, n,
			"not permitted (EACCES) with kernel.perf_event_paranoid=%d%s: the process "
			"must belong to the same user and be dumpable, or run as root (CAP_PERFMON "
			"and CAP_KILL, or CAP_SYS_PTRACE); hits inside the kernel need "
			"CAP_PERFMON",
			paranoid, yama ? " and yama.ptrace_scope set" : "");
}

static int explain_no_slot(char *buf, size_t n)
{
	char holders[512];
	int used = event_explain_slots(holders, sizeof(holders));

	if (used)
		return snprintf(buf, n,
				"no debug register is left in some thread: this program's own "
				"trapline events hold %d (%s); close one of them",
				used, holders);
	return snprintf(buf, n,
			"no debug register is left in some thread: x86-64 has 4, held by a debugger "
			"(gdb watch, hbreak), another tracer, or perf record -e mem:; end one of "
			"them");
}

TRAPLINE_API int trapline_explain(int err, char *buf, size_t n)
{
	const char *what = last.err == err ? last.what : NULL;

	if (what && last.step == FAILED_CODE)
		return snprintf(buf, n, "%s", what);
	switch (err) {
	case -EACCES:
	case -EPERM:
		if (what && last.step == FAILED_PROGRAM)
			return snprintf(buf, n,
					"%s: run as root, or give CAP_BPF, CAP_PERFMON and, for "
					"uprobes, CAP_SYS_ADMIN",
					what);
		return explain_permission(err, buf, n);
	case -ENOSPC:
		return explain_no_slot(buf, n);
	case -EMFILE:
	case -ENFILE:
		return snprintf(buf, n,
				"%s: too few file descriptors: one is needed for each thread and "
				"register; raise the hard limit (ulimit -Hn) or fs.nr_open",
				what ? what : "arming");
	case -ESRCH:
		return snprintf(buf, n, "%s", what ? what : "no such process, or it has ended");
	case -EOPNOTSUPP:
	case -ENOENT:
	case -ENODEV:
		return snprintf(buf, n, "%s: see `trapline check`",
				what ? what : "this kernel or machine lacks the event");
	case -ERANGE:
	case -ETIMEDOUT:
		return snprintf(buf, n, "%s", what ? what : strerrordesc_np(-err));
	case -ENOMEM:
		return snprintf(buf, n, "out of memory");
	case -ENOBUFS:
		return snprintf(buf, n,
				"no memory may be locked for records: raise "
				"kernel.perf_event_mlock_kb or ulimit -l");
	case -EAGAIN:
		if (what && last.step == FAILED_EVENT)
			return snprintf(buf, n, "%s: try again", what);
		return snprintf(buf, n,
				"threads were created faster than they could be armed: try again");
	case -EDEADLK:
		return snprintf(buf, n, "the event is being changed by this thread already");
	case -EIO:
		return snprintf(buf, n, "the event could be moved in some threads only; it is off");
	default:
		return snprintf(buf, n, "%s (%s)", what ? what : "wrong argument",
				strerrordesc_np(-err) ? strerrordesc_np(-err) : "unknown error");
	}
}
