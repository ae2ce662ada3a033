/* SPDX-License-Identifier: MIT */
/*
 * shared_signal.c - a signal to the process is left to the thread that the kernel has woken for it.
 *
 * That is the first thread, if it does not block the signal. But until it has a CPU, any thread
 * that returns from a handler takes what waits for the process, and threads with signals of
 * Trapline do that all the time. The first thread then finds nothing, and its system call begins
 * again: it does not end with EINTR, and the program waits for ever. So the handler waits until the
 * first thread has taken it.
 *
 * /proc/self is the first thread, and knows what waits for the process. Without /proc nothing is
 * known, and the signal is taken here.
 */
#include "base/general_regs.h"
#include "base/own_fd.h"

#include "base/shared_signal.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>

#include "base/sys.h"
#include "base/trap_path.h"

#define NAP_NS 100000
#define NAPS_MAX 20000	 /* 2 s and more: then it does not run */
#define STOPPED_NAPS 500 /* Trapline loads something in it; a debugger takes longer */
#define KEY_BYTES 8u	 /* of "ShdPnd:\t" and "SigBlk:\t" */
#define DIGITS 16u

/* What is first in /proc/self/status. */
struct first {
	char state;
	uint64_t waiting; /* for the process */
	uint64_t blocked; /* in the first thread */
	int is_known;
};

struct line {
	char text[KEY_BYTES + DIGITS];
	uint32_t bytes;
};

TRAP_PATH static uint64_t number_of(const struct line *line)
{
	uint64_t value = 0;

	for (uint32_t i = KEY_BYTES; i < line->bytes; i++) {
		char c = line->text[i];

		value = value << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
	return value;
}

/* memcmp(3) may use vector registers. */
TRAP_PATH static int is_key(const struct line *line, const char *key)
{
	uint32_t i = 0;

	while (key[i] && i < line->bytes && key[i] == line->text[i])
		i++;
	return !key[i];
}

TRAP_PATH static void take_line(const struct line *line, struct first *out)
{
	if (is_key(line, "State:\t"))
		out->state = line->text[7];
	if (line->bytes < sizeof(line->text))
		return;
	if (is_key(line, "ShdPnd:\t"))
		out->waiting = number_of(line);
	if (is_key(line, "SigBlk:\t")) {
		out->blocked = number_of(line);
		out->is_known = 1;
	}
}

TRAP_PATH static void take_bytes(const char *bytes, long n, struct line *line, struct first *out)
{
	for (long i = 0; i < n && !out->is_known; i++) {
		if (bytes[i] != '\n') {
			if (line->bytes < sizeof(line->text))
				line->text[line->bytes++] = bytes[i];
			continue;
		}
		take_line(line, out);
		line->bytes = 0;
	}
}

TRAP_PATH static void read_first(struct first *out)
{
	struct line line = { .bytes = 0 };
	char bytes[128];
	long n;
	int fd = own_fd_open("/proc/self/status", O_RDONLY);

	if (fd < 0)
		return;
	while (!out->is_known && (n = sys_read(fd, bytes, sizeof(bytes))) > 0)
		take_bytes(bytes, n, &line, out);
	sys_close(fd);
}

/* 1: the first thread is about to take a signal that this one would take as well. */
TRAP_PATH static int is_for_first(uint64_t taken_here, int naps)
{
	struct first first = { 0 };

	read_first(&first);
	if (!first.is_known || !(first.waiting & ~first.blocked & taken_here))
		return 0;
	return first.state == 'R' || first.state == 'S' ||
	       (first.state == 't' && naps < STOPPED_NAPS);
}

TRAP_PATH void shared_signal_leave(uint64_t mask)
{
	struct timespec nap = { 0, NAP_NS };
	uint64_t pending = 0;

	if (sys2(SYS_rt_sigpending, &pending, sizeof(pending)) || !(pending & ~mask) ||
	    sys_gettid() == sys_getpid())
		return;
	for (int i = 0; i < NAPS_MAX && is_for_first(~mask, i); i++)
		sys_nap(&nap);
}
