/* SPDX-License-Identifier: MIT */
/*
 * shared.c - a signal to the process is left to the thread that the kernel has woken for it.
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

#include "trap/shared.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>

#include "base/sys.h"
#include "base/trap_path.h"

#define NAP_NS 100000
#define NAPS_MAX 20000 /* 2 s and more: then it does not run */
#define KEY_BYTES 8u   /* of "ShdPnd:\t" and "SigBlk:\t" */
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

TRAP_PATH static void take_line(const struct line *line, struct first *out)
{
	if (!memcmp(line->text, "State:\t", 7))
		out->state = line->text[7];
	if (line->bytes < sizeof(line->text))
		return;
	if (!memcmp(line->text, "ShdPnd:\t", KEY_BYTES))
		out->waiting = number_of(line);
	if (!memcmp(line->text, "SigBlk:\t", KEY_BYTES)) {
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
TRAP_PATH static int is_for_first(uint64_t taken_here)
{
	struct first first = { 0 };

	read_first(&first);
	return first.is_known && (first.state == 'R' || first.state == 'S') &&
	       (first.waiting & ~first.blocked & taken_here);
}

TRAP_PATH void trap_leave_shared_to(uint64_t mask)
{
	struct timespec nap = { 0, NAP_NS };
	uint64_t pending = 0;

	if (sys2(SYS_rt_sigpending, &pending, sizeof(pending)) || !(pending & ~mask) ||
	    sys_gettid() == sys_getpid())
		return;
	for (int i = 0; i < NAPS_MAX && is_for_first(~mask); i++)
		sys_nap(&nap);
}

TRAP_PATH void trap_leave_shared(const ucontext_t *context)
{
	const uint64_t trap = 1ull << (SIGTRAP - 1);
	uint64_t mask;

	memcpy(&mask, &context->uc_sigmask, sizeof(mask));
	sys4(SYS_rt_sigprocmask, SIG_BLOCK, &trap, NULL, sizeof(trap));
	trap_leave_shared_to(mask);
}
