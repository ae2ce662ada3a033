/* SPDX-License-Identifier: MIT */
/*
 * act_stop.h - a process that is stopped at a hit, and continues even if this command is killed.
 *
 * The stop is SIGSTOP. The BPF program of the event raises it in the thread that made the hit,
 * before its next instruction; elsewhere this command sends it, later.
 */
#ifndef CLI_ACT_ACT_STOP_H
#define CLI_ACT_ACT_STOP_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * A process of its own, which waits for the end of this one. If that is not by act_guard_end(), it
 * continues the target when it is stopped. Start it before events are opened, which it must not
 * keep.
 */
struct act_guard {
	pid_t pid; /* 0: none */
};

/* 0 or -errno. */
int act_guard_start(struct act_guard *g, pid_t target);
void act_guard_end(struct act_guard *g);

/* Waits until the thread has stopped. 0, -ESRCH: it has ended, or -ETIMEDOUT. */
int act_wait_stopped(pid_t pid, pid_t tid);
/* It was stopped by something else before this hit is acted on. */
bool act_is_stopped(pid_t pid, pid_t tid);

#endif
