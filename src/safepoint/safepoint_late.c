/* SPDX-License-Identifier: MIT */
/*
 * safepoint_late.c - see safepoint_late.h. The other threads are stopped, perhaps inside malloc(),
 * so nothing here allocates.
 */
#include "safepoint/safepoint_late.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own_fd.h"
#include "code/lasting_text.h"
#include "core/explain.h"
#include "safepoint/safepoint_wait.h"

static void read_file(pid_t tid, const char *name, char *out, size_t room)
{
	char path[64];
	ssize_t n = -1;

	snprintf(path, sizeof(path), "/proc/self/task/%d/%s", tid, name);
	int fd = own_fd_open(path, O_RDONLY);
	if (fd >= 0) {
		n = sys_read(fd, out, room - 1);
		sys_close(fd);
	}
	out[n > 0 ? n : 0] = '\0';
}

/* 1: it has blocked the signal. */
static int blocks(pid_t tid, int signal)
{
	char status[4096];

	read_file(tid, "status", status, sizeof(status));
	const char *mask = strstr(status, "\nSigBlk:\t");
	return mask && strtoull(mask + 9, NULL, 16) >> (signal - 1) & 1;
}

/* What is wrong, and what helps. */
static void describe(const struct trapline_safepoint *domain, pid_t tid, char *out, size_t room)
{
	char call[256];
	long number = -1;
	unsigned long pc = 0;

	read_file(tid, "syscall", call, sizeof(call));
	if (domain->backend == TRAPLINE_SAFEPOINT_BY_SIGNAL && blocks(tid, domain->signal))
		snprintf(out, room, "it blocks signal %d; unblock it there", domain->signal);
	else if (sscanf(call, "%ld %*s %*s %*s %*s %*s %*s %*s %lx", &number, &pc) == 2 &&
		 number >= 0)
		snprintf(out, room,
			 "it sleeps in system call %ld at 0x%lx; put that into a native section",
			 number, pc);
	else
		snprintf(out, room, "it runs code without a safepoint; add one to its loop");
}

void late_note(struct trapline_safepoint *domain, int timeout_ms)
{
	char *text = lasting_text();
	char why[160];
	struct safepoint_thread *late;

	lock_take(&domain->list, safepoint_tid(), NO_DEADLINE);
	late = domain->threads;
	while (late && atomic_get(late->state) != SAFEPOINT_ASKED)
		late = late->next;
	if (late) {
		describe(domain, late->tid, why, sizeof(why));
		domain->stats.late_tid = late->tid;
		snprintf(text, LASTING_TEXT_BYTES,
			 "cannot stop all threads: thread %d (%s) did not come within %d ms: %s",
			 late->tid, late->name, timeout_ms, why);
	}
	lock_give(&domain->list);
	failed(-ETIMEDOUT, FAILED_CODE, late ? text : "a thread came too late");
}
