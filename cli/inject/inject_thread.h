/* SPDX-License-Identifier: MIT */
/*
 * inject_thread.h - one thread of another process, stopped by ptrace(2) and made to run
 * calls.
 */
#ifndef INJECT_THREAD_H
#define INJECT_THREAD_H

#include "cli/inject/inject_call.h"
#include "cli/inject/inject_return.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#define HELD_XSTATE_MAX 16384
#define HELD_STACK_BYTES (1u << 20)	 /* of calls */
#define TRAP_BIT (1ull << (SIGTRAP - 1)) /* of SIGTRAP, in a signal mask */

struct held_thread {
	pid_t pid;
	pid_t tid;
	int memory_fd;
	struct user_regs_struct saved;
	uint64_t saved_mask;
	uint8_t xstate[HELD_XSTATE_MAX]; /* vector registers: a function may use them */
	size_t xstate_size;
	struct return_gadgets gadgets;
	uint64_t mapped;   /* in the target: RETURN_BYTES, see inject_return.h; 0: nothing */
	uint64_t stack;	   /* 0: not there yet */
	uint64_t errno_at; /* calls change it, and it is restored; 0: not known yet */
	int errno_saved;
	struct call_timeout timeout; /* of the call that it is stopped in */
	bool had_trap;		     /* a SIGTRAP was pending before anything ran */
	bool has_run;		     /* it runs a call and has not returned */
	bool is_masked;		     /* all of its signals are blocked */
	int signal;	/* of the program, that came before: the thread is resumed with it */
	bool is_lost;	/* a call did not return in time */
	bool has_left;	/* it returned by itself, since trapline was late: no call is safe there */
	bool is_gone;	/* it has ended, as waitpid(2) states */
	bool is_loader; /* it is a thread of inject_loader.h: its way back ends it */
	pid_t born;	/* the thread that its last clone(2) made, as this process sees it */
};

/*
 * Runs act in a thread of its own, which makes all calls below. When that thread ends,
 * the kernel resumes the threads that were asked to stop and did not stop in time.
 */
void held_run(void (*act)(void *arg), void *arg);
/*
 * Another command is in the process: waits until it has left. false: none was, or the whole wait of
 * this run is used up, since the process can hold the lock as well.
 */
bool held_wait_for_others(int memory_fd);
/*
 * All waits of this file end when is_over returns true; NULL: they end by their own limits. Then
 * the thread in a call is lost, as after -ETIMEDOUT: it continues by itself when the call has
 * returned.
 */
void held_until(bool (*is_over)(void));
bool held_is_over(void);

/*
 * Stops the thread and saves its state. 0 or -errno; -ETIMEDOUT: it has not stopped yet,
 * try again. -EBUSY: it is in a call that would end with a part of its work; it runs on.
 */
int held_begin(struct held_thread *t, pid_t pid, pid_t tid, int memory_fd);

/*
 * Restores everything and resumes the thread, also in a system call. A lost one does so
 * by itself.
 */
void held_end(struct held_thread *t);

/* Makes a system call in the thread. Its result, or -errno of what failed here. */
long held_syscall(struct held_thread *t, long number, const uint64_t args[6]);

/* Maps n bytes in the process. Their address, or -errno. */
long held_map(struct held_thread *t, size_t n, int protection);

/*
 * held_syscall() of clone(2), with these registers: the new thread is stopped before its first
 * instruction.
 */
long held_clone(struct held_thread *t, struct user_regs_struct *regs, const uint64_t args[6]);
/* Takes that thread, whose way back begins at exit_at. 0 or -errno. */
int held_take_new(struct held_thread *t, uint64_t exit_at);
/* The new thread ends; where a call in it has not returned, later. */
void held_end_new(struct held_thread *t);
/* Its registers are those of its way back, on which it waits: it goes there by itself. */
void held_let_go(struct held_thread *t);

/*
 * Calls a function in the thread, on a separate stack. 0 or -errno; *result is its rax. -EINTR:
 * trapline was so late after an earlier call that the thread continued by itself, or a signal of
 * the program came before anything was done.
 */
int held_call(struct held_thread *t, uint64_t function, const uint64_t args[4], uint64_t *result);

/*
 * Writes arguments for a call: at most 4088 bytes, valid until the next write. Returns
 * their address.
 */
uint64_t held_write(struct held_thread *t, const void *bytes, size_t n);

#endif
