/* SPDX-License-Identifier: MIT */
/* child.c - see child.h. */
#include "cli/service/child.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINE_BYTES (256u << 10)
#define PATIENCE_NS UINT64_C(8000000000)

void child_words_add(struct child_words *w, const char *option, const char *value)
{
	char *word = NULL;

	if (w->count + 1 == CHILD_WORDS_MAX ||
	    asprintf(&word, "%s%s%s", option, value ? "=" : "", value ? value : "") < 0) {
		w->is_short = true;
		return;
	}
	w->word[w->count++] = word;
	w->word[w->count] = NULL;
}

void child_words_add_all(struct child_words *w, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		child_words_add(w, words[i], NULL);
}

void child_words_free(struct child_words *w)
{
	while (w->count)
		free(w->word[--w->count]);
}

/* What the child gets as its own. */
struct ends {
	int in;
	int out[2];
	int err[2];
};

/* In the child. It ends with the service, and Ctrl-C is for the service. */
static void run(const char *program, char *const *words, const struct ends *ends, pid_t service)
{
	int in = ends->in < 0 ? open("/dev/null", O_RDONLY | O_CLOEXEC) : ends->in;

	setpgid(0, 0);
	if (in < 0 || dup2(in, STDIN_FILENO) < 0 || dup2(ends->out[1], STDOUT_FILENO) < 0 ||
	    dup2(ends->err[1], STDERR_FILENO) < 0)
		_exit(CHILD_NOT_FOUND);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != service)
		_exit(CHILD_NOT_FOUND);
	if (program)
		execvp(program, words);
	else
		execv("/proc/self/exe", words);
	_exit(CHILD_NOT_FOUND);
}

static void close_both(const int *fds)
{
	close(fds[0]);
	close(fds[1]);
}

static int start(struct child *c, const char *program, char *const *words, int input)
{
	struct ends ends = { .in = input };

	if (pipe2(ends.out, O_CLOEXEC))
		return -errno;
	if (pipe2(ends.err, O_CLOEXEC)) {
		close_both(ends.out);
		return -ENFILE;
	}
	pid_t service = getpid();
	pid_t pid = fork();
	int failed = pid < 0 ? -errno : 0;
	if (!pid)
		run(program, words, &ends, service);
	if (failed) {
		close_both(ends.out);
		close_both(ends.err);
		return failed;
	}
	close(ends.out[1]);
	close(ends.err[1]);
	fcntl(ends.out[0], F_SETFL, O_NONBLOCK);
	fcntl(ends.err[0], F_SETFL, O_NONBLOCK);
	c->pid = pid;
	c->out.fd = ends.out[0];
	c->err.fd = ends.err[0];
	return 0;
}

int child_start(struct child *c, const char *program, const struct child_words *words, int input)
{
	*c = (struct child)CHILD_NONE;
	c->out.text = malloc(LINE_BYTES);
	c->err.text = malloc(LINE_BYTES);
	int err = -ENOMEM;
	if (words->count && !words->is_short && c->out.text && c->err.text)
		err = start(c, program, words->word, input);
	if (err)
		child_release(c);
	return err;
}

static uint64_t split(struct child_lines *l, void (*fn)(void *arg, const char *line, size_t n),
		      void *arg)
{
	char *from = l->text;
	char *end = l->text + l->used;
	uint64_t dropped = 0;

	for (char *feed; (feed = memchr(from, '\n', (size_t)(end - from))); from = feed + 1) {
		*feed = 0;
		dropped += l->is_cut;
		if (!l->is_cut)
			fn(arg, from, (size_t)(feed - from));
		l->is_cut = false;
	}
	l->used = (size_t)(end - from);
	memmove(l->text, from, l->used);
	if (l->used == LINE_BYTES) {
		l->is_cut = true;
		l->used = 0;
	}
	return dropped;
}

uint64_t child_lines_read(struct child_lines *l, void (*fn)(void *arg, const char *line, size_t n),
			  void *arg)
{
	ssize_t n = l->fd < 0 ? 0 : read(l->fd, l->text + l->used, LINE_BYTES - l->used);

	if (l->fd < 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
		return 0;
	if (n <= 0) {
		close(l->fd);
		l->fd = -1;
		return 0;
	}
	l->used += (size_t)n;
	return split(l, fn, arg);
}

void child_end(struct child *c)
{
	uint64_t now = clock_now_ns();

	if (!c->pid)
		return;
	if (!c->is_ending) {
		c->is_ending = true;
		c->ended_ns = now;
		kill(c->pid, SIGTERM);
	} else if (now - c->ended_ns > PATIENCE_NS) {
		kill(c->pid, SIGKILL);
	}
}

/* A process that it left behind may have its pipes open: then its own end is enough. */
bool child_has_ended(struct child *c, int *status)
{
	if (!c->pid || waitpid(c->pid, status, WNOHANG) != c->pid)
		return false;
	c->pid = 0;
	return true;
}

void child_release(struct child *c)
{
	if (c->out.fd >= 0)
		close(c->out.fd);
	if (c->err.fd >= 0)
		close(c->err.fd);
	free(c->out.text);
	free(c->err.text);
	*c = (struct child){ .out.fd = -1, .err.fd = -1 };
}
