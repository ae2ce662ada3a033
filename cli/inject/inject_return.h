/* SPDX-License-Identifier: MIT */
/*
 * inject_return.h - a stopped thread restores itself if trapline is killed, or gives up.
 *
 * The code that the thread is made to run ends in rt_sigreturn(2), with a frame that has
 * all its registers. After a function it first waits for trapline, which then restores
 * the registers itself.
 */
#ifndef INJECT_RETURN_H
#define INJECT_RETURN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

struct held_thread;

/*
 * The added code and the frame. The mapping stays in the target, since no thread could unmap the
 * code that it returns by.
 */
#define RETURN_BYTES 20480

/* The address of a function's result. */
struct return_result {
	uint64_t value;
	uint64_t is_there;
};

/* Code in the libc of the target, for a thread before anything is mapped. 0: none was found. */
struct return_gadgets {
	uint64_t syscall_at;	/* syscall; ret */
	uint64_t restore_at;	/* mov $15, %rax; syscall */
	uint64_t pop_result_at; /* pop %rax; ret */
	uint64_t pop_place_at;	/* pop of the register that the next has; ret */
	uint64_t store_at;	/* mov %rax, offset(register); ret */
	int64_t store_offset;
};

/*
 * Searches the executable mapping of address. Otherwise takes a system call in the vdso:
 * then the thread has no way back at first. false: none was found.
 */
bool return_find_gadgets(pid_t pid, int memory_fd, uint64_t address, struct return_gadgets *out);

/*
 * Finds what an earlier attach has left for this one: then t->mapped is set. Not while another
 * trapline is in the process.
 */
bool return_find_free(struct held_thread *t);
/* The thread does not need it: its own registers are set. */
void return_free(const struct held_thread *t);
/* Fills what was mapped at t->mapped. 0 or -errno. */
int return_write(const struct held_thread *t);

/*
 * The result of a call that has done nothing, and that the kernel is to begin again: no program
 * sees it.
 */
bool return_is_restart(long result);

/* As the kernel does for a call that begins again; false: regs are not those of one. */
bool return_begin_again(struct user_regs_struct *regs);
/* Where a thread with the registers of one of these begins its way back. */
uint64_t return_way_back(const struct held_thread *t);
/* Registers for a system call, and for a function; the caller may change them further. */
void return_for_syscall(const struct held_thread *t, struct user_regs_struct *regs);
void return_for_call(const struct held_thread *t, uint64_t function, uint64_t stack,
		     uint64_t result_at, struct user_regs_struct *regs);

/* No other data is on this stack between these addresses. */
bool return_is_stack(pid_t pid, uint64_t rsp, uint64_t lowest);

/*
 * The same before anything is mapped, and after it is unmapped: on the thread's own
 * stack, below what it uses, where no other data can be. Otherwise the thread has no way
 * back during one system call.
 */
bool return_has_way_back(const struct held_thread *t);
/*
 * That way back goes through a call that the kernel continues. It waits there, perhaps for long, so
 * the thread needs its signals, which are not to be blocked.
 */
bool return_needs_signals(const struct held_thread *t);
void return_on_own_stack(const struct held_thread *t, struct user_regs_struct *regs);

/* The thread has not returned yet from the function or the system call. */
bool return_is_reached(const struct held_thread *t, const struct user_regs_struct *regs);

/*
 * Whether the address is in code that this or a killed trapline added: the thread is
 * returning.
 */
bool return_is_code(int memory_fd, uint64_t address);

/*
 * Registers of a thread that a killed trapline has left in a call that the kernel continues: they
 * become those that it returns to.
 */
void return_look_through(int memory_fd, const struct return_gadgets *gadgets,
			 struct user_regs_struct *regs);

#endif
