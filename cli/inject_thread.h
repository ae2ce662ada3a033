/* SPDX-License-Identifier: MIT */
/* inject_thread.h - one thread of another process, held by ptrace(2) and made to run calls. */
#ifndef CLI_INJECT_THREAD_H
#define CLI_INJECT_THREAD_H

#include "cli/inject_return.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#define HELD_XSTATE_MAX 16384

struct held_thread {
	pid_t pid;
	pid_t tid;
	int memory_fd;
	struct user_regs_struct saved;
	uint64_t saved_mask;
	uint8_t xstate[HELD_XSTATE_MAX]; /* vector registers: a function may use them */
	size_t xstate_size;
	struct return_gadgets gadgets;
	uint64_t mapped; /* of our own, in the target: RETURN_BYTES, then the stack; 0: nothing */
	uint64_t stack;	 /* 0: not there yet */
	uint64_t errno_at; /* what calls change and get back; 0: not known yet */
	int errno_saved;
	bool has_run;  /* for us, and is not back */
	bool is_lost;  /* a call did not return in time */
	bool has_left; /* by itself, since we came so late: it stands where no call is safe */
};

/*
 * Runs act in a thread of its own; all below is called from there. At its end the kernel lets go of
 * what we have asked to stop and could not wait for.
 */
void held_run(void (*act)(void *arg), void *arg);
/* Stop the thread, and keep all it holds. 0 or -errno; -ETIMEDOUT: it has not stopped yet, try again. */
int held_begin(struct held_thread *t, pid_t pid, pid_t tid, int memory_fd);

/* Put everything back and let it go on, a system call it was in too. A lost one does so by itself. */
void held_end(struct held_thread *t);

/* A system call in the thread: its result, or -errno of what went wrong on our side. */
long held_syscall(struct held_thread *t, long number, const uint64_t args[6]);

/*
 * A function in the thread, on a stack of our own. 0 or -errno; *result is its rax. -EINTR: after an
 * earlier one we were so late that it went on by itself.
 */
int held_call(struct held_thread *t, uint64_t function, const uint64_t args[4], uint64_t *result);

/* Bytes for the calls' arguments: at most 4088, valid until the next. Returns their address. */
uint64_t held_write(struct held_thread *t, const void *bytes, size_t n);

#endif
