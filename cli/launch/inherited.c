/* SPDX-License-Identifier: MIT */
/* inherited.c - see inherited.h. */
#include "cli/launch/inherited.h"

#include "cli/launch/program.h"
#include "cli/message.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define INHERITED_MAX 1024

static unsigned int inherited[INHERITED_MAX];
static size_t count;
static bool is_noted;

/* A command catches these, and a caught signal is not ignored after exec: nohup(1), `command &`. */
static const int signals[] = { SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM };
#define SIGNALS (sizeof(signals) / sizeof(signals[0]))
static bool is_ignored[SIGNALS];

/* With fewer descriptors a command opens half of what it needs, and reads the rest as missing. */
#define DESCRIPTORS 1024
static struct rlimit descriptors;
static bool is_raised;

static int compare(const void *a, const void *b)
{
	const unsigned int *x = a;
	const unsigned int *y = b;

	return *x < *y ? -1 : *x > *y;
}

/*
 * A number below 3 that is free would be the next file's that is opened: what is printed would get
 * into that file. Reads and writes of an O_PATH descriptor fail with EBADF, as they would without
 * it.
 */
static void fill_standard(void)
{
	int fd = 0;

	for (int i = 0; i < 3; i++)
		if (fcntl(i, F_GETFD) < 0)
			fd = open("/", O_PATH | O_CLOEXEC);
	if (fd > 2)
		close(fd);
}

/* The hard limit, too, where that is permitted. */
static void raise_descriptors(void)
{
	struct rlimit more = { DESCRIPTORS, DESCRIPTORS };

	if (getrlimit(RLIMIT_NOFILE, &descriptors) || descriptors.rlim_cur >= DESCRIPTORS)
		return;
	if (descriptors.rlim_max > DESCRIPTORS)
		more.rlim_max = descriptors.rlim_max;
	is_raised = !setrlimit(RLIMIT_NOFILE, &more);
	if (is_raised)
		return;
	more = (struct rlimit){ descriptors.rlim_max, descriptors.rlim_max };
	is_raised = !setrlimit(RLIMIT_NOFILE, &more);
}

/* If they are more than a table has, all are passed on, and those of libraries too. */
void inherited_note(void)
{
	DIR *d = opendir("/proc/self/fd");
	struct sigaction now;
	size_t n = 0;

	for (size_t i = 0; i < SIGNALS; i++)
		is_ignored[i] = !sigaction(signals[i], NULL, &now) && now.sa_handler == SIG_IGN;
	for (struct dirent *e; d && (e = readdir(d));) {
		if (e->d_name[0] == '.' || atoi(e->d_name) == dirfd(d))
			continue;
		if (n < INHERITED_MAX)
			inherited[n] = (unsigned int)atoi(e->d_name);
		n++;
	}
	is_noted = d && n <= INHERITED_MAX;
	if (d)
		closedir(d);
	count = is_noted ? n : 0;
	qsort(inherited, count, sizeof(inherited[0]), compare);
	fill_standard();
	raise_descriptors();
}

static void close_at_exec(unsigned int first, unsigned int last)
{
	if (first <= last)
		syscall(SYS_close_range, first, last, CLOSE_RANGE_CLOEXEC);
}

/*
 * In the child, before exec: all others are closed by it, and signals and the limit are as they
 * were.
 */
static void inherited_only(void)
{
	unsigned int first = 3; /* these are the child's own choice */

	for (size_t i = 0; i < SIGNALS; i++)
		if (is_ignored[i])
			signal(signals[i], SIG_IGN);
	for (size_t i = 0; is_noted && i < count; i++) {
		if (inherited[i] < first)
			continue;
		if (inherited[i] > first)
			close_at_exec(first, inherited[i] - 1);
		first = inherited[i] + 1;
	}
	if (is_noted)
		close_at_exec(first, UINT_MAX);
	if (is_raised)
		setrlimit(RLIMIT_NOFILE, &descriptors);
}

int inherited_start(const char *name, char *const *argv, bool (*prepare)(void *arg), void *arg,
		    pid_t *pid)
{
	char path[PATH_MAX];
	int err = 0;
	int fds[2];

	/* Where the kernel cannot execute it, execvp() would give it to a shell as a script. */
	if (!program_find(argv[0], path, sizeof(path)) && program_is_32_bit(path))
		return cli_wrong(name,
				 "cannot start %s: it is a 32-bit program; start it yourself and "
				 "use -p PID",
				 argv[0]);
	if (pipe2(fds, O_CLOEXEC))
		return cli_wrong(name, "cannot start %s: %s", argv[0], strerror(errno));
	fflush(NULL);
	pid_t child = fork();
	if (child == 0) {
		inherited_only();
		if (prepare(arg))
			execvp(argv[0], argv);
		err = errno;
		ssize_t unused = write(fds[1], &err, sizeof(err));
		(void)unused;
		_exit(127);
	}
	close(fds[1]);
	if (child < 0)
		err = errno;
	else if (read(fds[0], &err, sizeof(err)) != sizeof(err))
		err = 0;
	close(fds[0]);
	if (err && child > 0)
		waitpid(child, NULL, 0);
	*pid = child;
	return err ? cli_wrong(name, "cannot start %s: %s", argv[0], strerror(err)) : CLI_OK;
}
