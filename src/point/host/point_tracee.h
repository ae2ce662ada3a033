/* SPDX-License-Identifier: MIT */
/* point_tracee.h - the thread of a window in another process: see point_window.h. */
#ifndef POINT_HOST_POINT_TRACEE_H
#define POINT_HOST_POINT_TRACEE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/user.h>

#include "point/host/point_window.h"

struct point_tracee {
	pid_t pid;
	pid_t tid;
	int memory_fd;
	uint64_t syscall_at; /* such an instruction of the vDSO */
	bool is_let_go;
	int status; /* of the last stop */
	unsigned int held_count;
	siginfo_t held[POINT_WINDOW_HELD];
};

enum point_stop {
	POINT_STOP_CALL,   /* of a system call */
	POINT_STOP_SIGNAL, /* info states which */
	POINT_STOP_OTHER,  /* the thread has ended, or is about to */
};

/* 0 or -errno. */
int point_tracee_open(struct point_tracee *t);
void point_tracee_close(struct point_tracee *t);

/*
 * Resumes the thread by a ptrace request, without a signal, until it stops. -errno, or point_stop.
 */
int point_tracee_go(struct point_tracee *t, int request, siginfo_t *info);
/* Keeps a signal that was sent. */
void point_tracee_hold(struct point_tracee *t, const siginfo_t *info);

/*
 * The thread executes a system call; its registers are the same after. Its result in *result. 0; 1:
 * it cannot, and t->status states why; or -errno.
 */
int point_tracee_call(struct point_tracee *t, long number, const uint64_t args[6], long *result);

/* From one system call's stop to one that a step can follow. As point_tracee_call(). */
int point_tracee_leave(struct point_tracee *t);

size_t point_tracee_read(const struct point_tracee *t, void *to, uint64_t from, size_t n);
/* Data; code. 0 or -errno. */
int point_tracee_write(const struct point_tracee *t, uint64_t to, const void *from, size_t n);
int point_tracee_write_code(const struct point_tracee *t, uint64_t to, const void *from, size_t n);

/* What a window cannot take: a filter of system calls, a shadow stack. */
bool point_tracee_is_filtered(const struct point_tracee *t);
bool point_tracee_has_shadow_stack(const struct point_tracee *t);
/*
 * Where the kernel finds the thread's restartable sequence; *at is 0 if it has none. 0 or -errno.
 */
int point_tracee_rseq(const struct point_tracee *t, uint64_t *at);

#endif
