/* SPDX-License-Identifier: MIT */
/*
 * mem.c - writing one's own text through the kernel, no matter what its protection is.
 *
 * /proc/thread-self/mem is the first way. A kernel may be built or booted so that it writes
 * protected text only for a tracer (proc_mem.force_override=ptrace, the default of Debian since
 * 7.0). So the second way is a process that has Trapline's memory and is traced by the calling
 * thread: what is written to its /proc/PID/mem is Trapline's text too. It runs no code but the
 * lines of assembler in tracee_*.c, has all signals blocked, and lives until mem_close() or until
 * the calling thread ends.
 *
 * Against mprotect() this has advantages. No page is writable and executable at once. The
 * protection that another patcher gives to the page is not touched, and sealed text can be changed.
 *
 * The second way is not tried under a seccomp filter: the filter may kill the program for ptrace().
 */
#include "code/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "base/atomic.h"
#include "base/own_fd.h"
#include "base/sys.h"
#include "base/trap_path.h"

#define SIGSET_BYTES 8
#define WAIT_NS 10000000
#define WAITS_MAX 100
#define TRACED 1u /* states that the tracee writes; 2: it was refused */

int mem_open_plain(void)
{
	/* A thread may use it that another has left open: see text_mem_hold(). */
	return own_fd_keep(SYS_openat, AT_FDCWD, (long)(uintptr_t) "/proc/thread-self/mem",
			   O_RDWR | O_CLOEXEC, 0, 0);
}

/* The whole mask: a signal in the tracee would stop it, and nothing lets it continue. */
TRAP_PATH static long clone_masked(struct mem *mem)
{
	const uint64_t all = UINT64_MAX;
	uint64_t before = 0;

	sys4(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, SIGSET_BYTES);
	long pid = tracee_clone(&mem->state, sys_getpid(), &mem->pidfd);
	sys4(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, SIGSET_BYTES);
	return pid;
}

/* -EAGAIN where there is a filter or where that cannot be known. */
static int find_no_filter(void)
{
	static const char wanted[] = "Seccomp:\t0\n";
	char text[4096];
	int fd = own_fd_open("/proc/thread-self/status", O_RDONLY);

	if (fd < 0)
		return -EAGAIN;
	long n = sys_read(fd, text, sizeof(text) - 1);
	sys_close(fd);
	text[n > 0 ? n : 0] = '\0';
	return strstr(text, wanted) ? 0 : -EAGAIN;
}

static void wait_for_state(struct mem *mem)
{
	const struct timespec tick = { .tv_nsec = WAIT_NS };

	for (int i = 0; i < WAITS_MAX && !atomic_get(&mem->state); i++)
		sys4(SYS_futex, &mem->state, FUTEX_WAIT, 0, &tick);
}

/* Without libc, which may have a trap anywhere. */
static void make_path(char *path, const char *folder, uint64_t number, const char *file)
{
	char digits[20];
	size_t n = 0;

	do
		digits[n++] = (char)('0' + number % 10);
	while (number /= 10);
	while (*folder)
		*path++ = *folder++;
	while (n)
		*path++ = digits[--n];
	while ((*path++ = *file++))
		;
}

/*
 * The number that a process has in /proc, which may be of another PID namespace than this process:
 * there the number that clone() returned is another process. 0: it has none.
 */
static uint64_t number_in_proc(int pidfd)
{
	static const char key[] = "\nPid:\t";
	char path[64];
	char text[512];
	uint64_t number = 0;

	make_path(path, "/proc/thread-self/fdinfo/", (uint64_t)pidfd, "");
	int fd = own_fd_open(path, O_RDONLY);
	if (fd < 0)
		return 0;
	long n = sys_read(fd, text, sizeof(text) - 1);
	sys_close(fd);
	text[n > 0 ? n : 0] = '\0';
	const char *at = strstr(text, key);
	for (at = at ? at + sizeof(key) - 1 : ""; *at >= '0' && *at <= '9'; at++)
		number = number * 10 + (uint64_t)(*at - '0');
	return number;
}

/* For a tracee that waits; a descriptor or -errno. */
static int open_tracee(int pidfd)
{
	uint64_t number = number_in_proc(pidfd);
	char path[40];

	if (!number)
		return -ESRCH;
	make_path(path, "/proc/", number, "/mem");
	/* In this thread, which traces it: another may not write there. */
	return own_fd_up((int)sys4(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0));
}

static void end_tracee(struct mem *mem)
{
	if (mem->pidfd < 0)
		return;
	sys4(SYS_pidfd_send_signal, mem->pidfd, SIGKILL, NULL, 0);
	/* Another thread that waits for any child may have been faster. */
	sys5(SYS_waitid, P_PIDFD, mem->pidfd, NULL, WEXITED | __WALL, NULL);
	sys_close(mem->pidfd);
	mem->pidfd = -1;
}

int mem_open_traced(struct mem *mem)
{
	int err = find_no_filter();

	if (err)
		return err;
	mem->state = 0;
	long pid = clone_masked(mem);
	if (pid < 0) {
		mem->pidfd = -1;
		return (int)pid;
	}
	wait_for_state(mem);
	int fd = atomic_get(&mem->state) == TRACED ? open_tracee(mem->pidfd) : -EPERM;
	/* Alive or not yet waited for: so the path was that of this process. */
	err = fd < 0 ? fd : (int)sys4(SYS_pidfd_send_signal, mem->pidfd, 0, NULL, 0);
	if (err) {
		if (fd >= 0)
			sys_close(fd);
		end_tracee(mem);
		return err;
	}
	mem->fd = fd;
	return 0;
}

static int write_once(const struct mem *mem, uint64_t address, const void *bytes, size_t len)
{
	long n = sys_of_fd(SYS_pwrite64, mem->fd, bytes, len, address, 0);

	return n == (long)len ? 0 : n < 0 ? (int)n : -EIO;
}

int mem_write(struct mem *mem, uint64_t address, const void *bytes, size_t len)
{
	if (mem->fd == -1)
		mem->fd = mem_open_plain();
	if (mem->fd < 0)
		return mem->fd;
	int err = write_once(mem, address, bytes, len);
	/* A short write states the same as EIO: the page is refused. */
	if (err != -EIO || !mem->may_trace)
		return err;
	mem->may_trace = 0;
	int plain = mem->fd;
	if (mem_open_traced(mem))
		return err;
	sys_close(plain);
	return write_once(mem, address, bytes, len);
}

void mem_close(struct mem *mem)
{
	if (mem->fd >= 0)
		sys_close(mem->fd);
	mem->fd = -1;
	end_tracee(mem);
}
