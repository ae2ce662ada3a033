/* SPDX-License-Identifier: MIT */
/*
 * death_watch.h - signals that end processes, seen from outside: the thread, its registers and its
 * stack.
 *
 * BPF programs at the kernel's tracepoints see the signal when it is delivered and has its default
 * action. So what a handler takes is not seen, and the process has no code of Trapline for it. It
 * needs CAP_BPF and CAP_PERFMON.
 */
#ifndef HOST_DEATH_WATCH_H
#define HOST_DEATH_WATCH_H

#include "base/ebpf.h"
#include "event/ring/ringbuf.h"
#include "host/death_record.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	DEATH_AT_SIGNAL, /* signal_deliver */
	DEATH_AT_SENT,	 /* signal_generate */
	DEATH_AT_FORK,
	DEATH_AT_EXIT,
	DEATH_PROGRAMS,
};

enum death_loss {
	DEATH_UNRECORDED, /* records that had no room */
	DEATH_UNFOLLOWED, /* threads for which the table had no room */
	DEATH_LOSSES,
};

struct death_watch {
	struct ringbuf ring;
	int control_fd; /* an array whose one element has the counts of enum death_loss */
	int tasks_fd;	/* threads of the processes, and of what descends from them */
	int named_fd;	/* numbers of processes */
	int senders_fd; /* of each process and signal, the thread that sent it last */
	int ends_fd;	/* of each process that a signal ended, its status */
	int links[DEATH_PROGRAMS];
	struct ebpf_ids ids;
	bool has_registers;
	bool has_next; /* a record was given and is not released */
};

#define DEATH_WATCH_NONE                                                                           \
	{                                                                                          \
		.ring.fd = -1, .control_fd = -1, .tasks_fd = -1, .named_fd = -1, .senders_fd = -1, \
		.ends_fd = -1, .links = { -1, -1, -1, -1 },                                        \
	}

/* The thread that sent a signal. */
struct death_sender {
	uint64_t pid_tid;
	char thread[16];
};

/* 0 or -errno. Closed by death_watch_close() in each case. */
int death_watch_open(struct death_watch *w);
void death_watch_close(struct death_watch *w);

/* A process, and what it forks from now on; no longer: what it has forked stays. 0 or -errno. */
int death_watch_add(struct death_watch *w, pid_t pid);
void death_watch_remove(struct death_watch *w, pid_t pid);

/* The next death; NULL: no more have come. It is valid until the next call. */
const struct death_record *death_watch_next(struct death_watch *w);
/* What had no room. */
uint64_t death_watch_lost(const struct death_watch *w, enum death_loss which);

/* The signal that ended a process, as waitpid() gives it; 0: none did, or it runs. */
int death_watch_status(const struct death_watch *w, pid_t pid);
/* false: not known, or the kernel sent it. */
bool death_watch_sender(const struct death_watch *w, pid_t pid, int signal,
			struct death_sender *out);

#endif
