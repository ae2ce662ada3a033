/* SPDX-License-Identifier: MIT */
/* inject_call.c - see inject_call.h. */
#include "cli/inject/inject_call.h"

#include "base/clock.h"
#include "cli/inject/inject_return.h"
#include "cli/launch/program.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define TEXT_MAX 8192
#define RED_ZONE 128u
/* Linux: include/linux/errno.h. "Begin again, unless a handler is called: then EINTR." */
#define RESTART_UNLESS_HANDLED 514
/* Linux: include/uapi/linux/io_uring.h. IORING_ENTER_EXT_ARG, IORING_ENTER_ABS_TIMER. */
#define RING_HAS_TIMEOUT 8u
#define RING_HAS_DEADLINE 32u
#define RING_FLAGS_KNOWN 63u
#define RING_ARGUMENT_WORDS \
	3 /* of struct io_uring_getevents_arg, whose last one is the timeout's address */
#define CLOCK_READINGS 3
/* CLOCK_MONOTONIC may run faster or slower than a CPU's clock by 500 ppm: adjtimex(2). */
#define SLEW_SHARE 2000
#define AGAIN_MAX 64
#define BEGIN_STEP_NS 200000
#define BEGIN_NS 100000000
#define BEGIN_MAX_NS 20000000000ull /* while it has no CPU */

enum timeout_form {
	IN_MILLISECONDS, /* in the register; negative: without end */
	IN_MEMORY,	 /* a struct timespec; NULL: without end */
	WITHOUT_END,
	OF_SOCKET_IN,  /* SO_RCVTIMEO of its first argument */
	OF_SOCKET_OUT, /* SO_SNDTIMEO */
	LEFT_TIMESPEC, /* in memory, where the kernel writes how much is left */
	LEFT_TIMEVAL,
	OF_RING, /* in memory, where a struct in memory states */
};

struct call_timed {
	long number;
	enum timeout_form form;
	int argument;
};

/* signal(7) has these as "never restarted"; each ends with EINTR whenever the thread stops. */
static const struct call_timed interrupted[] = {
	{ SYS_epoll_wait, IN_MILLISECONDS, 3 }, { SYS_epoll_pwait, IN_MILLISECONDS, 3 },
	{ SYS_epoll_pwait2, IN_MEMORY, 3 },	{ SYS_semop, WITHOUT_END, 0 },
	{ SYS_semtimedop, IN_MEMORY, 3 },	{ SYS_rt_sigtimedwait, IN_MEMORY, 2 },
	{ SYS_io_getevents, IN_MEMORY, 4 },	{ SYS_read, OF_SOCKET_IN, 0 },
	{ SYS_readv, OF_SOCKET_IN, 0 },		{ SYS_recvfrom, OF_SOCKET_IN, 0 },
	{ SYS_recvmsg, OF_SOCKET_IN, 0 },	{ SYS_accept, OF_SOCKET_IN, 0 },
	{ SYS_accept4, OF_SOCKET_IN, 0 },	{ SYS_connect, OF_SOCKET_OUT, 0 },
	{ SYS_io_uring_enter, OF_RING, 4 },
};

/* The kernel begins these again, but does not count the time during which the thread is stopped. */
static const struct call_timed updated[] = {
	{ SYS_select, LEFT_TIMEVAL, 4 },
	{ SYS_pselect6, LEFT_TIMESPEC, 4 },
	{ SYS_ppoll, LEFT_TIMESPEC, 2 },
};

static const long transfers[] = { SYS_write,	SYS_writev, SYS_pwrite64, SYS_pwritev,
				  SYS_pwritev2, SYS_sendto, SYS_sendmsg,  SYS_sendmmsg,
				  SYS_sendfile, SYS_splice, SYS_tee,	  SYS_vmsplice,
				  SYS_recvmmsg };

static const struct call_timed *call_find(const struct call_timed *calls, size_t count, long number)
{
	for (size_t i = 0; i < count; i++)
		if (calls[i].number == number)
			return &calls[i];
	return NULL;
}

static const struct call_timed *find_interrupted(long number)
{
	return call_find(interrupted, sizeof(interrupted) / sizeof(interrupted[0]), number);
}

/* Flags of recvfrom(2) and recvmsg(2): all bytes at once, or none. */
static bool waits_for_all(long number, const uint64_t *arguments)
{
	return (number == SYS_recvfrom && arguments[3] & MSG_WAITALL) ||
	       (number == SYS_recvmsg && arguments[2] & MSG_WAITALL);
}

static enum call_kind kind_of(long number, const uint64_t *arguments)
{
	for (size_t i = 0; i < sizeof(transfers) / sizeof(transfers[0]); i++)
		if (transfers[i] == number)
			return CALL_TRANSFERS;
	if (waits_for_all(number, arguments))
		return CALL_TRANSFERS;
	return find_interrupted(number) ? CALL_IS_TIMED : CALL_CONTINUES;
}

static bool read_text(const char *path, char *text)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, TEXT_MAX - 1) : -1;

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* -1: in no call, or /proc does not show it. */
static long read_call(pid_t pid, pid_t tid, uint64_t arguments[6])
{
	char path[64];
	char text[TEXT_MAX];
	uint64_t *a = arguments;
	long number;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, tid);
	if (!read_text(path, text) ||
	    sscanf(text, "%ld %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64,
		   &number, &a[0], &a[1], &a[2], &a[3], &a[4], &a[5]) != 7)
		return -1;
	return number;
}

bool call_stack(pid_t pid, pid_t tid, uint64_t *sp)
{
	char path[64];
	char text[TEXT_MAX];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, tid);
	char *pc = read_text(path, text) ? strrchr(text, ' ') : NULL;
	if (!pc)
		return false;
	*pc = '\0';
	const char *at = strrchr(text, ' ');
	if (at)
		*sp = strtoull(at, NULL, 16);
	return at != NULL;
}

/*
 * When a thread ran last, by a clock of the CPU that it belongs to; for a thread that sleeps, when
 * it fell asleep. A thread may still be in the queue of its CPU when it sleeps (Linux 6.12:
 * DELAY_DEQUEUE), and move to another CPU then. That resets its first mark, until it runs. The
 * second is set as the thread leaves the queue, some milliseconds later (Linux:
 * migrate_task_rq_fair(), update_load_avg()).
 */
struct last_run {
	const char *mark; /* NULL: not known */
	uint64_t ns;
};

static const char *const run_marks[] = { "se.exec_start", "se.avg.last_update_time" };

/* Milliseconds with six digits behind the point, or nanoseconds. */
static uint64_t read_mark(const char *text, const char *mark)
{
	const char *at = strstr(text, mark);
	uint64_t whole;
	uint64_t part;

	at = at ? strchr(at, ':') : NULL;
	int count = at ? sscanf(at, ": %" SCNu64 ".%" SCNu64, &whole, &part) : 0;
	return count == 2 ? whole * 1000000 + part : count == 1 ? whole : 0;
}

static struct last_run read_last_run(const char *path)
{
	char text[TEXT_MAX];
	struct last_run last = { NULL, 0 };

	if (!read_text(path, text))
		return last;
	for (size_t i = 0; i < sizeof(run_marks) / sizeof(run_marks[0]) && !last.ns; i++)
		last = (struct last_run){ run_marks[i], read_mark(text, run_marks[i]) };
	if (!last.ns)
		last.mark = NULL;
	return last;
}

static struct last_run read_last_run_of(pid_t pid, pid_t tid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/sched", pid, tid);
	return read_last_run(path);
}

static int last_cpu(pid_t pid, pid_t tid)
{
	int64_t cpu;

	return program_stat(pid, tid, 39, &cpu) ? (int)cpu : -1;
}

/*
 * The difference between CLOCK_MONOTONIC and a CPU's clock, as a thread sees it that has just begun
 * to run there: the smallest of some readings, since interruptions make it larger. The CPU's clock
 * omits what a hypervisor takes (Linux: update_rq_clock_task()). So by that time, taken since the
 * thread sleeps, its call ends later.
 */
static bool read_offset_of(int cpu, const char *mark, int64_t *offset)
{
	const struct timespec moment = { 0, 1000 };
	cpu_set_t before;
	cpu_set_t one;
	char text[TEXT_MAX];
	int count = 0;

	CPU_ZERO(&one);
	CPU_SET((size_t)cpu, &one);
	if (sched_getaffinity(0, sizeof(before), &before) ||
	    sched_setaffinity(0, sizeof(one), &one))
		return false;
	for (int i = 0; i < CLOCK_READINGS; i++) {
		nanosleep(&moment, NULL);
		uint64_t now = clock_now_ns();
		uint64_t shown =
			read_text("/proc/thread-self/sched", text) ? read_mark(text, mark) : 0;
		if (!shown)
			break;
		if (!count++ || (int64_t)(now - shown) < *offset)
			*offset = (int64_t)(now - shown);
	}
	sched_setaffinity(0, sizeof(before), &before);
	return count != 0;
}

static uint64_t asleep_since(pid_t pid, pid_t tid, struct last_run last)
{
	int64_t offset = 0;
	int cpu = last_cpu(pid, tid);

	if (cpu < 0 || cpu >= CPU_SETSIZE || !read_offset_of(cpu, last.mark, &offset))
		return 0;
	uint64_t since = last.ns + (uint64_t)offset;
	uint64_t now = clock_now_ns();
	if (since >= now)
		return now;
	return since + (now - since) / SLEW_SHARE; /* rather later than too early */
}

/*
 * The threads whose calls began again a moment ago, and until when each of them waits. A thread
 * that has not run since then is still in the same call.
 */
static struct {
	pid_t tid;
	struct last_run last;
	uint64_t deadline_ns;
} again[AGAIN_MAX];

static void read_sleeps(pid_t pid, pid_t tid, char text[24])
{
	if (!program_status(pid, tid, "voluntary_ctxt_switches", text, 24))
		text[0] = '\0';
}

/* While it leaves its stop, /proc already shows it in the call, which has not begun. */
static bool call_is_in(pid_t pid, pid_t tid, const struct call_timeout *t)
{
	char sleeps[sizeof(t->sleeps)];
	uint64_t arguments[6];

	read_sleeps(pid, tid, sleeps);
	return strcmp(sleeps, t->sleeps) != 0 && read_call(pid, tid, arguments) == t->call->number;
}

/*
 * A thread that was resumed has no CPU for a while on a busy machine. false: it is elsewhere by
 * now, or is still on its way.
 */
static bool wait_until_it_is_in(pid_t pid, pid_t tid, const struct call_timeout *t)
{
	const struct timespec step = { 0, BEGIN_STEP_NS };
	const uint64_t start = clock_now_ns();
	uint64_t waited_ns = 0;

	while (waited_ns < BEGIN_NS ||
	       (waited_ns < BEGIN_MAX_NS && program_thread_state(pid, tid) == 'R')) {
		if (call_is_in(pid, tid, t))
			return true;
		nanosleep(&step, NULL);
		waited_ns = clock_now_ns() - start;
	}
	return call_is_in(pid, tid, t);
}

enum call_kind call_kind_of(pid_t pid, pid_t tid)
{
	uint64_t arguments[6] = { 0 };
	long number = read_call(pid, tid, arguments);

	return kind_of(number, arguments);
}

void call_look(pid_t pid, pid_t tid, struct call_look *look)
{
	size_t row = (size_t)tid % AGAIN_MAX;

	memset(look, 0, sizeof(*look));
	look->number = read_call(pid, tid, look->arguments);
	look->kind = kind_of(look->number, look->arguments);
	if (look->kind != CALL_IS_TIMED)
		return;
	struct last_run last = read_last_run_of(pid, tid);
	if (!last.mark)
		return;
	if (again[row].tid == tid && again[row].last.mark == last.mark &&
	    again[row].last.ns == last.ns)
		look->deadline_ns = again[row].deadline_ns;
	else
		look->since_ns = asleep_since(pid, tid, last);
}

static unsigned long long *call_argument_of(struct user_regs_struct *r, int i)
{
	unsigned long long *const registers[6] = { &r->rdi, &r->rsi, &r->rdx,
						   &r->r10, &r->r8,  &r->r9 };

	return registers[i];
}

/* Otherwise it began this call after the look, a moment ago. */
static bool is_as_seen(const struct call_look *look, struct user_regs_struct *r)
{
	for (int i = 0; i < 6; i++)
		if (look->arguments[i] != *call_argument_of(r, i))
			return false;
	return look->number == (long)r->orig_rax;
}

static bool move(bool is_write, pid_t pid, uint64_t address, void *bytes, size_t n)
{
	const struct iovec local = { bytes, n };
	const struct iovec remote = { (void *)(uintptr_t)address, n };
	ssize_t moved = is_write ? process_vm_writev(pid, &local, 1, &remote, 1, 0) :
				   process_vm_readv(pid, &local, 1, &remote, 1, 0);

	return moved == (ssize_t)n;
}

/* A copy of a descriptor of the process, if it is a socket; -1: it is not. */
static int copy_socket(pid_t pid, int fd)
{
	struct stat st;
	int process = (int)syscall(SYS_pidfd_open, pid, 0);
	int copy = process >= 0 ? (int)syscall(SYS_pidfd_getfd, process, fd, 0) : -1;

	if (process >= 0)
		close(process);
	if (copy >= 0 && (fstat(copy, &st) || !S_ISSOCK(st.st_mode))) {
		close(copy);
		copy = -1;
	}
	return copy;
}

static int64_t in_ns(const int64_t t[2], int64_t unit_ns)
{
	return t[0] > INT32_MAX ? INT64_MAX / 4 : t[0] * 1000000000 + t[1] * unit_ns;
}

/* The arguments of io_uring_enter(2). A deadline stays as it is. */
static int64_t read_ring_timeout(pid_t pid, const struct user_regs_struct *r)
{
	uint64_t argument[RING_ARGUMENT_WORDS];
	int64_t value[2];

	if (r->r10 & ~RING_FLAGS_KNOWN)
		return -2;
	if (!(r->r10 & RING_HAS_TIMEOUT))
		return -1;
	if (r->r9 != sizeof(argument) || !move(false, pid, r->r8, argument, sizeof(argument)))
		return -2;
	if (!argument[RING_ARGUMENT_WORDS - 1] || r->r10 & RING_HAS_DEADLINE)
		return -1;
	if (!move(false, pid, argument[RING_ARGUMENT_WORDS - 1], value, sizeof(value)))
		return -2;
	return in_ns(value, 1);
}

/* The whole timeout in nanoseconds; -1: without end; -2: it cannot be read. */
static int64_t read_timeout(pid_t pid, struct user_regs_struct *r, struct call_timeout *t)
{
	unsigned long long argument = *call_argument_of(r, t->call->argument);
	enum timeout_form form = t->call->form;
	socklen_t size = sizeof(t->timeout);
	int64_t value[2];

	switch (form) {
	case WITHOUT_END:
		return -1;
	case OF_RING:
		return read_ring_timeout(pid, r);
	case IN_MILLISECONDS:
		return (int)argument < 0 ? -1 : (int64_t)(int)argument * 1000000;
	case IN_MEMORY:
	case LEFT_TIMESPEC:
	case LEFT_TIMEVAL:
		if (!argument)
			return -1;
		if (!move(false, pid, argument, value, sizeof(value)))
			return -2;
		return in_ns(value, form == LEFT_TIMEVAL ? 1000 : 1);
	case OF_SOCKET_IN:
	case OF_SOCKET_OUT:
		t->option = form == OF_SOCKET_IN ? SO_RCVTIMEO : SO_SNDTIMEO;
		t->fd = copy_socket(pid, (int)argument);
		if (t->fd < 0) /* the calls of other files have no timeout */
			return -1;
		if (getsockopt(t->fd, SOL_SOCKET, t->option, t->timeout, &size))
			return -2;
		return t->timeout[0] || t->timeout[1] ? in_ns(t->timeout, 1000) : -1;
	}
	return -2;
}

/*
 * A struct of the program that the kernel only reads stays as it is. A copy is put below what the
 * thread uses of its stack, and below the frame of inject_return.h.
 */
static uint64_t copy_place(const struct user_regs_struct *r)
{
	return (r->rsp - RED_ZONE - RETURN_BYTES - 64) & ~15ull;
}

static bool write_copy(pid_t pid, void *copy, size_t bytes, const struct user_regs_struct *r,
		       unsigned long long *argument)
{
	const uint64_t at = copy_place(r);

	if (!return_is_stack(pid, r->rsp, at) || !move(true, pid, at, copy, bytes))
		return false;
	*argument = at;
	return true;
}

static bool write_ring_copy(pid_t pid, const int64_t left[2], const struct user_regs_struct *r,
			    unsigned long long *argument)
{
	uint64_t copy[RING_ARGUMENT_WORDS + 2];

	if (!move(false, pid, *argument, copy, RING_ARGUMENT_WORDS * sizeof(copy[0])))
		return false;
	copy[RING_ARGUMENT_WORDS - 1] = copy_place(r) + RING_ARGUMENT_WORDS * sizeof(copy[0]);
	copy[RING_ARGUMENT_WORDS] = (uint64_t)left[0];
	copy[RING_ARGUMENT_WORDS + 1] = (uint64_t)left[1];
	return write_copy(pid, copy, sizeof(copy), r, argument);
}

/* Gives the call the time that is left. */
static bool write_left(pid_t pid, struct user_regs_struct *r, const struct call_timeout *t)
{
	unsigned long long *argument = call_argument_of(r, t->call->argument);
	uint64_t now = clock_now_ns();
	int64_t left_ns = t->deadline_ns > now ? (int64_t)(t->deadline_ns - now) : 0;
	int64_t left[2] = { left_ns / 1000000000, left_ns % 1000000000 };

	if (!t->deadline_ns)
		return true;
	switch (t->call->form) {
	case IN_MILLISECONDS:
		*argument = (unsigned long long)((left_ns + 999999) / 1000000);
		return true;
	case IN_MEMORY:
		return write_copy(pid, left, sizeof(left), r, argument);
	case OF_RING:
		return write_ring_copy(pid, left, r, argument);
	case LEFT_TIMEVAL:
		left[1] /= 1000;
		return move(true, pid, *argument, left, sizeof(left));
	case LEFT_TIMESPEC:
		return move(true, pid, *argument, left, sizeof(left));
	case OF_SOCKET_IN:
	case OF_SOCKET_OUT:
		left[1] = left[1] / 1000 + !left_ns; /* 0 means without end */
		return !setsockopt(t->fd, SOL_SOCKET, t->option, left, sizeof(left));
	case WITHOUT_END:
		break;
	}
	return true;
}

static void close_socket(struct call_timeout *t)
{
	if (t->fd >= 0)
		close(t->fd);
	t->fd = -1;
}

/*
 * Finds the end of its wait; where the kernel does not show when that began, its whole time from
 * now. false: the call stays as the kernel left it.
 */
static bool set_deadline(pid_t pid, const struct call_look *look, struct user_regs_struct *r,
			 struct call_timeout *t)
{
	uint64_t now = clock_now_ns();
	int64_t whole_ns = read_timeout(pid, r, t);

	if (whole_ns < 0)
		return whole_ns == -1;
	t->deadline_ns = now + (uint64_t)whole_ns;
	if (t->call->form == LEFT_TIMESPEC || t->call->form == LEFT_TIMEVAL || !is_as_seen(look, r))
		return true;
	if (look->deadline_ns)
		t->deadline_ns = look->deadline_ns;
	else if (look->since_ns)
		t->deadline_ns = look->since_ns + (uint64_t)whole_ns;
	return true;
}

static const struct call_timed *find_call(const struct user_regs_struct *r)
{
	long number = (long)r->orig_rax;

	if (number < 0)
		return NULL;
	if ((long)r->rax == -EINTR)
		return find_interrupted(number);
	if ((long)r->rax == -RESTART_UNLESS_HANDLED)
		return call_find(updated, sizeof(updated) / sizeof(updated[0]), number);
	return NULL;
}

/*
 * The timeout of epoll_wait(2) and the address of a timeout are in registers that functions do not
 * preserve, so that the program does not meet their new values.
 */
void call_repair(pid_t pid, const struct call_look *look, struct user_regs_struct *regs,
		 struct call_timeout *t)
{
	struct user_regs_struct repaired = *regs;

	*t = (struct call_timeout){ .call = find_call(regs), .fd = -1 };
	if (!t->call)
		return;
	if (set_deadline(pid, look, &repaired, t) && write_left(pid, &repaired, t)) {
		*regs = repaired;
		regs->rax = (unsigned long long)-RESTART_UNLESS_HANDLED;
		return;
	}
	close_socket(t);
	t->call = NULL;
}

void call_resume(pid_t pid, pid_t tid, struct user_regs_struct *regs, struct call_timeout *t)
{
	if (!t->call)
		return;
	read_sleeps(pid, tid, t->sleeps);
	write_left(pid, regs, t);
}

void call_resumed(pid_t pid, pid_t tid, struct call_timeout *t)
{
	size_t row = (size_t)tid % AGAIN_MAX;

	if (!t->call || !t->deadline_ns || !find_interrupted(t->call->number)) {
		close_socket(t);
		return;
	}
	if (wait_until_it_is_in(pid, tid, t)) {
		again[row].tid = tid;
		again[row].deadline_ns = t->deadline_ns;
		again[row].last = read_last_run_of(pid, tid);
	}
	if (t->fd >= 0)
		setsockopt(t->fd, SOL_SOCKET, t->option, t->timeout, sizeof(t->timeout));
	close_socket(t);
	t->call = NULL;
}
