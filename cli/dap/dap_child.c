/* SPDX-License-Identifier: MIT */
/*
 * dap_child.c - see dap_child.h.
 *
 * A child has the standard output and error that this process has when it starts. So both are pipes
 * for that moment. This process is one thread, and writes nothing then.
 */
#include "cli/dap/dap_child.h"

#include "cli/dap/dap_hit.h"
#include "cli/dap/dap_race.h"
#include "cli/launch/inherited.h"
#include "cli/message.h"
#include "report/run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHUNK_BYTES 16384
#define END_WAIT_US 10000
#define END_WAITS 50

/* Standard output and error as they were. */
static int saved[2] = { -1, -1 };

static struct dap_child *slot_free(struct dap *d)
{
	for (size_t i = 0; i < DAP_CHILDREN; i++)
		if (!d->child[i].pid)
			return &d->child[i];
	return NULL;
}

static void streams_back(void)
{
	for (int k = 0; k < 2; k++) {
		if (saved[k] < 0)
			continue;
		dup2(saved[k], STDOUT_FILENO + k);
		close(saved[k]);
		saved[k] = -1;
	}
}

static int stream_to_pipe(struct dap_child *c, int k)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	c->fd[k] = fds[0];
	fcntl(fds[0], F_SETFL, O_NONBLOCK);
	saved[k] = fcntl(STDOUT_FILENO + k, F_DUPFD_CLOEXEC, 3);
	int err = saved[k] < 0 || dup2(fds[1], STDOUT_FILENO + k) < 0 ? -errno : 0;
	close(fds[1]);
	return err;
}

struct dap_child *dap_child_begin(struct dap *d, char *why, size_t n)
{
	struct dap_child *c = slot_free(d);

	if (!c) {
		snprintf(why, n, "%d commands run already: enter stop, which ends them",
			 DAP_CHILDREN - 1);
		return NULL;
	}
	*c = (struct dap_child){ .fd = { -1, -1 } };
	fflush(NULL);
	int err = stream_to_pipe(c, 0);
	if (!err)
		err = stream_to_pipe(c, 1);
	if (!err)
		return c;
	streams_back();
	dap_child_close(c);
	snprintf(why, n, "cannot make a pipe: %s", strerror(-err));
	return NULL;
}

void dap_child_started(struct dap_child *c, pid_t pid, bool is_command)
{
	streams_back();
	c->pid = pid;
	c->is_command = is_command;
}

void dap_child_close(struct dap_child *c)
{
	streams_back();
	for (int k = 0; k < 2; k++)
		if (c->fd[k] >= 0)
			close(c->fd[k]);
	dap_race_free(c->races);
	*c = (struct dap_child){ .fd = { -1, -1 } };
}

/* In the child: a command ends with the session, however that ends. */
static bool end_with_session(void *arg)
{
	return !prctl(PR_SET_PDEATHSIG, SIGTERM);
}

static void keep_line(void *arg, bool is_note, const char *line)
{
	snprintf(arg, DAP_WHY, "%s", line);
}

bool dap_child_command(struct dap *d, char **words, bool gives_races, char *why, size_t n)
{
	char said[DAP_WHY] = "";
	pid_t pid = 0;
	struct dap_child *c = dap_child_begin(d, why, n);

	if (!c)
		return false;
	cli_set_listener(keep_line, said);
	int status = inherited_start("dap", words, end_with_session, NULL, &pid);
	cli_set_listener(NULL, NULL);
	if (status) {
		dap_child_close(c);
		snprintf(why, n, "%s", said);
		return false;
	}
	dap_child_started(c, pid, true);
	c->races = gives_races ? calloc(1, sizeof(*c->races)) : NULL;
	return true;
}

/* The bytes of the first lines, so many at most. */
static size_t first_lines(const char *bytes, size_t n, unsigned int max, unsigned int *lines)
{
	const char *p = bytes;

	for (*lines = 0; *lines < max && p < bytes + n; ++*lines) {
		const char *end = memchr(p, '\n', n - (size_t)(p - bytes));
		p = end ? end + 1 : bytes + n;
	}
	return (size_t)(p - bytes);
}

/* More than the client reads is dropped: the process must not wait for it. */
static void pass_on(struct dap *d, struct dap_child *c, int which, char *bytes, size_t n)
{
	const char *category = c->is_command ? "console" : which ? "stderr" : "stdout";
	unsigned int lines;
	size_t kept = first_lines(bytes, n, dap_hit_child_lines(d), &lines);

	if (kept && c->dropped) {
		dap_note(d, "%" PRIu64 " bytes of output are not shown here", c->dropped);
		c->dropped = 0;
	}
	c->dropped += n - kept;
	d->child_lines += lines;
	for (char *p = bytes; (p = memchr(p, 0, kept - (size_t)(p - bytes)));)
		*p = ' ';
	bytes[kept] = 0;
	if (kept)
		dap_say(d, category, bytes);
}

/* A command waits where the client gets more than it shows; the process never does. */
bool dap_child_is_read(struct dap *d, const struct dap_child *c)
{
	return !c->is_command || dap_hit_child_lines(d) > 0;
}

void dap_child_read(struct dap *d, struct dap_child *c, int which)
{
	size_t max = c->is_command ? CHUNK_BYTES / 4 : CHUNK_BYTES;
	char bytes[CHUNK_BYTES + 1];
	ssize_t n;

	do {
		n = read(c->fd[which], bytes, max);
		if (n > 0 && c->races && which == 0)
			dap_race_read(d, c->races, bytes, (size_t)n);
		else if (n > 0)
			pass_on(d, c, which, bytes, (size_t)n);
	} while ((n < 0 && errno == EINTR) || (n == (ssize_t)max && !c->is_command));
	if (n > 0 || (n < 0 && errno == EAGAIN))
		return;
	close(c->fd[which]);
	c->fd[which] = -1;
}

void dap_child_reap(struct dap *d)
{
	for (size_t i = 0; i < DAP_CHILDREN; i++) {
		struct dap_child *c = &d->child[i];
		if (!c->pid || !c->is_command || waitpid(c->pid, NULL, WNOHANG) != c->pid)
			continue;
		for (int k = 0; k < 2; k++)
			if (c->fd[k] >= 0)
				dap_child_read(d, c, k);
		dap_child_close(c);
	}
}

size_t dap_child_stop(struct dap *d)
{
	size_t n = 0;

	for (size_t i = 0; i < DAP_CHILDREN; i++) {
		if (!d->child[i].pid || !d->child[i].is_command)
			continue;
		kill(d->child[i].pid, SIGTERM);
		n++;
	}
	return n;
}

void dap_child_end(struct dap *d)
{
	size_t left = dap_child_stop(d);

	for (int i = 0; i < END_WAITS && left; i++) {
		usleep(END_WAIT_US);
		dap_child_reap(d);
		left = 0;
		for (size_t k = 0; k < DAP_CHILDREN; k++)
			left += d->child[k].pid && d->child[k].is_command;
	}
	for (size_t i = 0; i < DAP_CHILDREN; i++) {
		struct dap_child *c = &d->child[i];
		if (!c->pid)
			continue;
		if (c->is_command) {
			kill(c->pid, SIGKILL);
			waitpid(c->pid, NULL, 0);
		}
		dap_child_close(c);
	}
}

/* Reads both until they are closed. Nothing else of this process is left in it. */
static void drain(int first, int second)
{
	char bytes[4096];
	int fd[2] = { first, second };

	setsid();
	signal(SIGHUP, SIG_IGN);
	for (int k = 0; k < 2; k++) {
		fcntl(fd[k], F_SETFL, 0);
		/*
		 * One after the other would block a process that fills the second: it has its own
		 * reader.
		 */
		if (k == 0 && fork() == 0)
			continue;
		while (read(fd[k], bytes, sizeof(bytes)) > 0)
			;
		_exit(0);
	}
}

void dap_child_leave(struct dap *d)
{
	for (size_t i = 0; i < DAP_CHILDREN; i++) {
		struct dap_child *c = &d->child[i];
		if (!c->pid || c->is_command)
			continue;
		if (fork() == 0) {
			dup2(c->fd[0], STDIN_FILENO);
			dup2(c->fd[1], STDOUT_FILENO);
			close_range(3, ~0u, 0);
			close(STDERR_FILENO);
			drain(STDIN_FILENO, STDOUT_FILENO);
		}
	}
}
