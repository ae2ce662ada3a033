/* SPDX-License-Identifier: MIT */
/*
 * inject_return.h - a held thread finds back by itself when we are killed, or give up.
 *
 * What it runs for us ends in rt_sigreturn(2), with a frame that holds all it had. A function waits
 * before that for us to come: then we put its registers back ourselves.
 */
#ifndef CLI_INJECT_RETURN_H
#define CLI_INJECT_RETURN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

struct held_thread;

/* Code of ours and the frame, at the start of what is mapped in the target; the stack follows. */
#define RETURN_BYTES (5u * 4096u)

/* Where a function's result is put. */
struct return_result {
	uint64_t value;
	uint64_t is_there;
};

/* Where a thread that has not had any of it mapped yet finds what it needs: in its libc. */
struct return_gadgets {
	uint64_t syscall_at; /* syscall; ret */
	uint64_t restore_at; /* mov $15, %rax; syscall; 0: none was found */
};

/*
 * In the executable mapping that holds address; or a system call alone, in the vdso: then there is no
 * way back at first. false: none.
 */
bool return_find_gadgets(pid_t pid, int memory_fd, uint64_t address, struct return_gadgets *out);

/* Fills what was mapped at t->mapped. 0 or -errno. */
int return_write(const struct held_thread *t);

/* Registers for a system call, and for a function, which are written and may be changed further. */
void return_for_syscall(const struct held_thread *t, struct user_regs_struct *regs);
void return_for_call(const struct held_thread *t, uint64_t function, uint64_t stack,
		     uint64_t result_at, struct user_regs_struct *regs);

/*
 * The same before anything is mapped and after: on the thread's own stack, below what it uses, where
 * nothing of anybody else can be. Otherwise it has no way back for the time of one system call.
 */
bool return_has_way_back(const struct held_thread *t);
void return_on_own_stack(const struct held_thread *t, struct user_regs_struct *regs);

/* After a function, or a system call: it has not gone back yet. */
bool return_is_reached(const struct held_thread *t, const struct user_regs_struct *regs);

/* Is that in code of ours, or of one that was killed: the thread is on its way back. */
bool return_is_code(int memory_fd, uint64_t address);

#endif
