// SPDX-License-Identifier: MIT
/*
 * watch_price.c - what one hit costs the thread that makes it, on this machine.
 *
 * A throwaway child watches a variable of its own in the same way and writes it some times.
 * The child has a deadline: a summary must not wait for a measurement.
 */
#include "cli/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define WRITES 200
#define DEADLINE_MS 1000

static volatile uint64_t victim;

static int ns_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static double measure(const struct watch_settings *set)
{
	TRAPLINE_OPTS(open, open_opts);
	TRAPLINE_OPTS(event, opts);
	struct trapline *t;
	struct trapline_event *event;
	uint64_t took_ns[WRITES];

	open_opts.flags = set->no_bpf ? TRAPLINE_NO_BPF : 0;
	opts.flags = set->stack ? TRAPLINE_STACK_BYTES : 0;
	if (trapline_open(0, &open_opts, &t) < 0)
		return -1;
	if (trapline_watch(t, (uintptr_t)&victim, sizeof(victim), TRAPLINE_WRITE, &opts, &event) < 0)
		return -1;
	/* The median: this machine does other things too. */
	for (int i = 0; i < WRITES; i++) {
		uint64_t start = watch_now_ns();
		victim++;
		took_ns[i] = watch_now_ns() - start;
	}
	qsort(took_ns, WRITES, sizeof(took_ns[0]), ns_compare);
	return (double)took_ns[WRITES / 2];
}

static void child_run(const struct watch_settings *set, int fd)
{
	double price = measure(set);
	ssize_t unused = write(fd, &price, sizeof(price));

	(void)unused;
	_exit(0);
}

double watch_price_ns(const struct watch_settings *set)
{
	double price = -1;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC))
		return -1;
	fflush(NULL);
	pid_t child = fork();
	if (child == 0)
		child_run(set, fds[1]);
	close(fds[1]);
	if (child > 0) {
		struct pollfd p = { .fd = fds[0], .events = POLLIN };
		if (poll(&p, 1, DEADLINE_MS) != 1 ||
		    read(fds[0], &price, sizeof(price)) != sizeof(price))
			price = -1;
		kill(child, SIGKILL);
		while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
			;
	}
	close(fds[0]);
	return price;
}
