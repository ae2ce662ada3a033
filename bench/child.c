/* SPDX-License-Identifier: MIT */
/* child.c - see child.h. */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CANNOT_RUN 127
#define GRACE_MS 3000 /* between asking it to end and making it */

static _Noreturn void run(char *const argv[], int cpu, int in, int out)
{
	cpu_set_t cpus;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	dup2(in, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	dup2(out, STDERR_FILENO);
	if (cpu != CHILD_ANY_CPU) {
		CPU_ZERO(&cpus);
		CPU_SET(cpu, &cpus);
		sched_setaffinity(0, sizeof(cpus), &cpus);
	}
	execv(argv[0], argv);
	dprintf(STDOUT_FILENO, "skip %s: %s\n", argv[0], strerror(errno));
	_exit(CANNOT_RUN);
}

int child_start(struct child *child, char *const argv[], int cpu)
{
	int in[2];
	int out[2];
	int err;

	if (pipe2(in, O_CLOEXEC) < 0)
		return -errno;
	if (pipe2(out, O_CLOEXEC) < 0) {
		err = -errno;
		goto out_in;
	}

	pid_t pid = fork();

	if (pid < 0) {
		err = -errno;
		goto out_out;
	}
	if (pid == 0)
		run(argv, cpu, in[0], out[1]);
	setpgid(pid, pid);
	close(in[0]);
	close(out[1]);
	*child = (struct child){ .pid = pid, .in = in[1], .out = out[0] };
	return 0;

out_out:
	close(out[0]);
	close(out[1]);
out_in:
	close(in[0]);
	close(in[1]);
	return err;
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* 1 when something came, 0 at the end or when the time is over. */
static int read_more(struct child *child, int64_t until_ms)
{
	struct pollfd fd = { .fd = child->out, .events = POLLIN };
	int64_t left_ms = until_ms - now_ms();

	if (child->used == sizeof(child->text) - 1)
		child->used = 0; /* longer than any line we wait for */
	if (left_ms <= 0 || poll(&fd, 1, (int)left_ms) <= 0)
		return 0;

	ssize_t n = read(child->out, child->text + child->used,
			 sizeof(child->text) - 1 - child->used);

	if (n <= 0)
		return 0;
	child->used += (size_t)n;
	return 1;
}

const char *child_line(struct child *child, int timeout_ms)
{
	int64_t until_ms = now_ms() + timeout_ms;
	char *end;

	child->used -= child->line_end;
	memmove(child->text, child->text + child->line_end, child->used);
	child->line_end = 0;
	while ((end = memchr(child->text, '\n', child->used)) == NULL)
		if (!read_more(child, until_ms))
			return NULL;
	*end = '\0';
	child->line_end = (size_t)(end - child->text) + 1;
	return child->text;
}

int child_say(struct child *child, const char *line)
{
	size_t n = strlen(line);

	return write(child->in, line, n) == (ssize_t)n ? 0 : -EPIPE;
}

void child_close_input(struct child *child)
{
	if (child->in >= 0)
		close(child->in);
	child->in = -1;
}

static int has_ended(const struct child *child, int timeout_ms, int *status)
{
	int64_t until_ms = now_ms() + timeout_ms;

	for (;;) {
		if (waitpid(child->pid, status, WNOHANG) != 0)
			return 1;
		if (now_ms() >= until_ms)
			return 0;
		usleep(2000);
	}
}

int child_end(struct child *child, int timeout_ms)
{
	int status = 0;

	if (child->pid == 0)
		return 0;
	child_close_input(child);
	if (!has_ended(child, timeout_ms, &status)) {
		kill(-child->pid, SIGTERM);
		if (!has_ended(child, GRACE_MS, &status)) {
			kill(-child->pid, SIGKILL);
			has_ended(child, GRACE_MS, &status);
		}
	}
	close(child->out);
	child->pid = 0;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
