// SPDX-License-Identifier: MIT
/* cost.c - see cost.h. */
#include "cli/observe/cost.h"

#include "cli/now.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 200
#define DEADLINE_MS 1000

static int ns_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static double measure(int (*prepare)(const void *arg), void (*one)(void), const void *arg)
{
	uint64_t took_ns[ROUNDS];

	if (prepare(arg) < 0)
		return -1;
	/* The median is stable although other programs run. */
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t start = now_ns();
		one();
		took_ns[i] = now_ns() - start;
	}
	qsort(took_ns, ROUNDS, sizeof(took_ns[0]), ns_compare);
	return (double)took_ns[ROUNDS / 2];
}

double cost_ns(int (*prepare)(const void *arg), void (*one)(void), const void *arg)
{
	double cost = -1;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC))
		return -1;
	fflush(NULL);
	pid_t child = fork();
	if (child == 0) {
		cost = measure(prepare, one, arg);
		ssize_t unused = write(fds[1], &cost, sizeof(cost));
		(void)unused;
		_exit(0);
	}
	close(fds[1]);
	if (child > 0) {
		struct pollfd p = { .fd = fds[0], .events = POLLIN };
		if (poll(&p, 1, DEADLINE_MS) != 1 ||
		    read(fds[0], &cost, sizeof(cost)) != sizeof(cost))
			cost = -1;
		kill(child, SIGKILL);
		while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
			;
	}
	close(fds[0]);
	return cost;
}
