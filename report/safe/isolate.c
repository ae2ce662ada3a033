/* SPDX-License-Identifier: MIT */
/* isolate.c - see isolate.h. */
#include "report/safe/isolate.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER_MAX 4096u /* a pipe takes so much in one piece */
#define CPU_SECONDS 2
#define MEMORY_BYTES (1ull << 30)
#define WALL_MS 20000
#define NOBODY 65534

/* In a user namespace of one user, or without CAP_SETUID. */
static void drop_capabilities(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { { 0 } };

	if (syscall(SYS_capset, &header, none))
		_exit(1);
}

static void drop_rights(void)
{
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (geteuid())
		return;
	/* All capabilities go with the user. Where there is no other one, they go alone. */
	if (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) ||
	    setresuid(NOBODY, NOBODY, NOBODY))
		drop_capabilities();
}

/* The memory of this process, as /proc/self/statm has it in pages; 0: unknown. */
static uint64_t memory_now(void)
{
	char text[64] = "";
	int fd = openat(AT_FDCWD, "/proc/self/statm", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return 0;
	uint64_t pages = read(fd, text, sizeof(text) - 1) > 0 ? strtoull(text, NULL, 10) : 0;
	close(fd);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

void isolate_enter(uint64_t bytes, uint64_t cpu_seconds)
{
	static const int ends[] = { SIGHUP, SIGALRM, SIGXCPU, SIGSEGV, SIGBUS, SIGABRT };
	const struct rlimit none = { 0, 0 };
	uint64_t now = memory_now();
	struct rlimit limit;

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		signal(ends[i], SIG_DFL);
	/* Ctrl-C reaches it too, and its parent decides what that ends. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_DFL);
	setrlimit(RLIMIT_CORE, &none);
	setrlimit(RLIMIT_FSIZE, &none);
	limit = (struct rlimit){ cpu_seconds, cpu_seconds + 1 };
	if (cpu_seconds != UINT64_MAX)
		setrlimit(RLIMIT_CPU, &limit);
	limit = (struct rlimit){ now + bytes, now + bytes };
	if (bytes != UINT64_MAX && now)
		setrlimit(RLIMIT_AS, &limit);
	drop_rights();
	/* A change of the user takes this back, so it comes last. */
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
}

/* Symbols are read by descriptor, memory of the target too; and nothing is done by such a one. */
static bool is_to_be_read(int fd)
{
	struct stat st;
	int flags = fcntl(fd, F_GETFL);

	return fd > STDERR_FILENO && flags >= 0 && (flags & (O_ACCMODE | O_PATH)) == O_RDONLY &&
	       !fstat(fd, &st) && S_ISREG(st.st_mode);
}

/* Events, sockets, outputs and what is traced belong to the command alone. */
static void close_all_but(int answer_fd)
{
	DIR *d = opendir("/proc/self/fd");

	if (!d)
		_exit(1);
	for (struct dirent *e; (e = readdir(d));) {
		int fd = atoi(e->d_name);

		if (e->d_name[0] != '.' && fd != dirfd(d) && fd != answer_fd && !is_to_be_read(fd))
			close(fd);
	}
	closedir(d);
}

static void run_child(void (*fn)(void *arg, void *answer), void *arg, int fd, size_t n)
{
	char answer[ANSWER_MAX] __attribute__((aligned(16))) = { 0 };

	close_all_but(fd);
	isolate_enter(MEMORY_BYTES, CPU_SECONDS);
	fn(arg, answer);
	_exit(write(fd, answer, n) == (ssize_t)n ? 0 : 1);
}

/* A signal to this process ends the wait too: it asks for the end. */
static int wait_for(int fd, void *answer, size_t n)
{
	char bytes[ANSWER_MAX];
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int ready = poll(&p, 1, WALL_MS);

	if (ready <= 0)
		return ready ? -errno : -ETIMEDOUT;
	if (read(fd, bytes, n) != (ssize_t)n)
		return -ECHILD;
	memcpy(answer, bytes, n);
	return 0;
}

int isolate(void (*fn)(void *arg, void *answer), void *arg, void *answer, size_t n)
{
	int ends[2];
	int status = 0;

	if (n > ANSWER_MAX)
		return -EINVAL;
	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	pid_t pid = fork();
	if (!pid)
		run_child(fn, arg, ends[1], n);
	int err = pid < 0 ? -errno : 0;
	close(ends[1]);
	if (!err) {
		err = wait_for(ends[0], answer, n);
		kill(pid, SIGKILL);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		if (err == -ECHILD && WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
			err = -ETIMEDOUT;
	}
	close(ends[0]);
	return err;
}
