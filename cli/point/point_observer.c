/* SPDX-License-Identifier: MIT */
/* point_observer.c - see point_observer.h. */
#include "cli/point/point_observer.h"

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

#define ARGS_MAX 64
#define LINE_BYTES (256u << 10)
#define PATIENCE_NS UINT64_C(8000000000)

struct words {
	char *word[ARGS_MAX];
	size_t count;
	bool is_short; /* of memory */
};

static void add(struct words *w, const char *option, const char *value)
{
	char *word = NULL;

	if (w->count + 1 == ARGS_MAX ||
	    asprintf(&word, "%s%s%s", option, value ? "=" : "", value ? value : "") < 0) {
		w->is_short = true;
		return;
	}
	w->word[w->count++] = word;
}

static void words_of(struct words *w, const struct point *p)
{
	size_t i;
	json_t *name;

	add(w, "trapline", NULL);
	add(w, "break", NULL);
	add(w, p->location, NULL);
	add(w, "--name", p->name);
	add(w, "--json", NULL);
	if (p->print)
		add(w, "--print", p->print);
	if (p->condition)
		add(w, "--if", p->condition);
	if (p->budget)
		add(w, "--budget", p->budget);
	if (p->args)
		add(w, "--args", NULL);
	if (p->ret)
		add(w, "--ret", NULL);
	if (p->stack)
		add(w, "--stack", NULL);
	json_array_foreach(p->redact, i, name) add(w, "--redact", json_string_value(name));
	w->word[w->count] = NULL;
}

static void words_free(struct words *w)
{
	while (w->count)
		free(w->word[--w->count]);
}

/* In the child. It ends with the collector, and Ctrl-C is for the collector. */
static void run(char *const *words, const int out[2], const int err[2], pid_t collector)
{
	int in = open("/dev/null", O_RDONLY | O_CLOEXEC);

	setpgid(0, 0);
	if (in < 0 || dup2(in, STDIN_FILENO) < 0 || dup2(out[1], STDOUT_FILENO) < 0 ||
	    dup2(err[1], STDERR_FILENO) < 0)
		_exit(127);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() == collector)
		execv("/proc/self/exe", words);
	_exit(127);
}

static int start(struct point_observer *o, char *const *words)
{
	int out[2];
	int err[2];

	if (pipe2(out, O_CLOEXEC))
		return -errno;
	if (pipe2(err, O_CLOEXEC)) {
		close(out[0]);
		close(out[1]);
		return -ENFILE;
	}
	pid_t collector = getpid();
	pid_t pid = fork();
	int failed = pid < 0 ? -errno : 0;
	if (!pid)
		run(words, out, err, collector);
	close(out[1]);
	close(err[1]);
	if (failed) {
		close(out[0]);
		close(err[0]);
		return failed;
	}
	fcntl(out[0], F_SETFL, O_NONBLOCK);
	fcntl(err[0], F_SETFL, O_NONBLOCK);
	o->pid = pid;
	o->out.fd = out[0];
	o->err.fd = err[0];
	return 0;
}

int point_observer_start(struct point_observer *o, const struct point *p)
{
	struct words w = { .count = 0 };

	*o = (struct point_observer){ .out.fd = -1, .err.fd = -1 };
	o->out.text = malloc(LINE_BYTES);
	o->err.text = malloc(LINE_BYTES);
	words_of(&w, p);
	int err = w.is_short || !o->out.text || !o->err.text ? -ENOMEM : start(o, w.word);
	words_free(&w);
	if (err)
		point_observer_release(o);
	return err;
}

static uint64_t split(struct point_lines *l, void (*fn)(void *arg, const char *line, size_t n),
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

uint64_t point_lines_read(struct point_lines *l, void (*fn)(void *arg, const char *line, size_t n),
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

void point_observer_end(struct point_observer *o)
{
	uint64_t now = clock_now_ns();

	if (!o->pid)
		return;
	if (!o->is_ending) {
		o->is_ending = true;
		o->ended_ns = now;
		kill(o->pid, SIGTERM);
	} else if (now - o->ended_ns > PATIENCE_NS) {
		kill(o->pid, SIGKILL);
	}
}

/* A process that it left behind may have its pipes open: then its own end is enough. */
bool point_observer_has_ended(struct point_observer *o, int *status)
{
	if (!o->pid || waitpid(o->pid, status, WNOHANG) != o->pid)
		return false;
	o->pid = 0;
	return true;
}

void point_observer_release(struct point_observer *o)
{
	if (o->out.fd >= 0)
		close(o->out.fd);
	if (o->err.fd >= 0)
		close(o->err.fd);
	free(o->out.text);
	free(o->err.text);
	*o = (struct point_observer){ .out.fd = -1, .err.fd = -1 };
}
