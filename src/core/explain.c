/* SPDX-License-Identifier: MIT */
/* explain.c - why a call failed, and what helps. The bare numbers of perf_event_open() do not. */
#include "core/explain.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <trapline/trapline.h>

#include "base/own_fd.h"
#include "base/sys.h"
#include "check/probe_util.h"
#include "event/slots.h"

/* Also written in signal handlers, so its memory is there from the beginning. */
static __thread struct {
	int err;
	enum failed_step step;
	const char *what;
} last __attribute__((tls_model("initial-exec")));

void failed_forget(void)
{
	last.what = NULL;
	last.err = 0;
}

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
	int fd = own_fd_open(path, O_RDONLY);

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
		return snprintf(
			buf, n,
			"perf_event_open is forbidden (EPERM), most likely by a container's "
			"seccomp profile: allow perf_event_open and bpf there, or give "
			"CAP_PERFMON and CAP_BPF");
	if (paranoid > 2)
		return snprintf(buf, n,
				"kernel.perf_event_paranoid is %d, which requires CAP_SYS_ADMIN: "
				"run as root, or sysctl kernel.perf_event_paranoid=2",
				paranoid);
	return snprintf(buf, n,
			"not permitted (EACCES) with kernel.perf_event_paranoid=%d%s: run as the "
			"user of a process that is dumpable, or as root (CAP_PERFMON and CAP_KILL, "
			"or CAP_SYS_PTRACE). Hits inside the kernel need CAP_PERFMON",
			paranoid, yama ? " and yama.ptrace_scope set" : "");
}

static int explain_no_slot(char *buf, size_t n)
{
	char holders[512];
	int used = event_explain_slots(holders, sizeof(holders));

	if (used)
		return snprintf(buf, n,
				"no debug register is left in some thread: x86-64 has 4, and this "
				"program's own events use %d (%s). Close one of them, or end the "
				"debugger or tracer that uses the others",
				used, holders);
	return snprintf(buf, n,
			"no debug register is left in some thread: x86-64 has 4, and a debugger "
			"(gdb watch, hbreak), another tracer or perf record -e mem: uses them. End "
			"one of these");
}

/* bpf() was refused; root alone does not help in a container. */
static int explain_program(const char *what, char *buf, size_t n)
{
	const char *remedy =
		"run as root, or give CAP_BPF, CAP_PERFMON and, for uprobes, CAP_SYS_ADMIN";

	if (probe_is_in_user_namespace())
		remedy =
			"capabilities of a user namespace do not count: give CAP_BPF, CAP_PERFMON and, for "
			"uprobes, CAP_SYS_ADMIN outside it";
	else if (probe_seccomp_mode() == 2 && probe_has_cap(CAP_BPF))
		remedy =
			"a seccomp filter forbids it: allow bpf and perf_event_open there (docker run "
			"--security-opt seccomp=unconfined)";
	else if (probe_has_cap(CAP_BPF) && probe_has_cap(CAP_PERFMON))
		remedy =
			"a security module or lockdown forbids it: see /sys/kernel/security/lockdown";
	return snprintf(buf, n, "%s: %s", what, remedy);
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
			return explain_program(what, buf, n);
		return explain_permission(err, buf, n);
	case -ENOSPC:
		return explain_no_slot(buf, n);
	case -ENFILE:
		if (what)
			return snprintf(buf, n, "%s, which is the limit: close one of them", what);
		return snprintf(buf, n, "too many files are open in the system: raise fs.file-max");
	case -EMFILE:
		return snprintf(buf, n,
				"%s: too few file descriptors: each thread needs one for each "
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
	case -EFBIG:
		return snprintf(buf, n,
				"the limit of file sizes is less than the memory for code: raise "
				"it (prlimit --fsize=unlimited --pid PID)");
	case -ENOBUFS:
		return snprintf(buf, n,
				"cannot lock memory for records: raise "
				"kernel.perf_event_mlock_kb or ulimit -l");
	case -EAGAIN:
		if (what && last.step == FAILED_EVENT)
			return snprintf(buf, n, "%s: try again", what);
		return snprintf(
			buf, n,
			"the process creates threads faster than they can be armed: try again");
	case -EDEADLK:
		return snprintf(buf, n, "this thread is changing the event already");
	case -EIO:
		return snprintf(buf, n,
				"the event could be moved in some threads only; it is disabled");
	default:
		return snprintf(buf, n, "%s (%s)", what ? what : "wrong argument",
				strerrordesc_np(-err) ? strerrordesc_np(-err) : "unknown error");
	}
}
