/* SPDX-License-Identifier: MIT */
/* inject_thread.h - one thread of another process, held by ptrace(2) and made to run calls. */
#ifndef CLI_INJECT_THREAD_H
#define CLI_INJECT_THREAD_H

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
	uint64_t syscall_at; /* a system call instruction in its text */
	uint64_t stack;	     /* of our own, in the target; 0: not mapped */
};

/* Stop the thread, and keep all it holds. 0 or -errno. */
int held_begin(struct held_thread *t, pid_t pid, pid_t tid, int memory_fd);

/* Put everything back and let it go on, a system call it was in too. */
void held_end(struct held_thread *t);

/* A system call in the thread: its result, or -errno of what went wrong on our side. */
long held_syscall(struct held_thread *t, long number, const uint64_t args[6]);

/* A function in the thread, on a stack of our own. 0 or -errno; *result is its rax. */
int held_call(struct held_thread *t, uint64_t function, const uint64_t args[4], uint64_t *result);

/* Bytes for the calls' arguments: at most 4096, valid until the next. Returns their address. */
uint64_t held_write(struct held_thread *t, const void *bytes, size_t n);

#endif
