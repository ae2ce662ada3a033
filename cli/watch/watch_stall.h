/* SPDX-License-Identifier: MIT */
/*
 * watch_stall.h - stalls a thread where it has called a function, until a register is armed for it.
 *
 * The threads are traced by ptrace(2). A BPF program at the function sends a signal to the thread
 * that calls it, and the tracer stalls the thread there. The program neither handles nor blocks
 * this signal, so the thread continues without harm when this command is killed: the signal has no
 * effect then.
 */
#ifndef WATCH_STALL_H
#define WATCH_STALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct watch_stall;

/* Chooses the signal. 0; or -errno with a reason and a remedy in why. */
int watch_stall_open(pid_t pid, char *why, size_t n, struct watch_stall **out);
int watch_stall_signal(const struct watch_stall *h);
/* Traces all threads, those to come too. 0, or -errno with why. */
int watch_stall_trace(struct watch_stall *h, char *why, size_t n);
/* Waits until fd is readable, or a thread has stopped. */
void watch_stall_wait(struct watch_stall *h, int fd, int timeout_ms);
/* Lets threads continue that have stopped for another reason. Returns how many are stalled. */
size_t watch_stall_look(struct watch_stall *h);
bool watch_stall_has(const struct watch_stall *h, pid_t tid);
/*
 * Lets the stalled threads continue. Returns how long they were stalled, as far as this process saw
 * it.
 */
uint64_t watch_stall_go(struct watch_stall *h);
/* The first thread has ended, with *status as waitpid() gives it. */
bool watch_stall_has_ended(const struct watch_stall *h, int *status);
/*
 * No thread is traced any more, except those that do not stop for a while: one that waits in
 * vfork(2) for its child, or gets no CPU. The first thread may have ended in the meantime.
 */
void watch_stall_leave(struct watch_stall *h);
/*
 * The same, and the memory is released. NULL is permitted. A session lets the threads continue that
 * stop later: session_late.
 */
void watch_stall_close(struct watch_stall *h);

#endif
