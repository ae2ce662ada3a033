/* SPDX-License-Identifier: MIT */
/*
 * at_regs.h - the registers of a traced thread by DWARF number, and what single steps show of
 * themselves.
 */
#ifndef AT_REGS_H
#define AT_REGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define AT_REGISTERS_MAX 33

/* The last one is the pc. */
extern const size_t at_register_count;
extern const size_t at_register_sp;
extern const char *const at_register_names[];

/*
 * On arm64 a thread that was stopped at a point does not stop again after PTRACE_SINGLESTEP: Linux
 * 6.12, tests/vm/command.sh.
 */
extern const bool at_can_step;

/* 0 or -errno. */
int at_regs_read(pid_t tid, uint64_t regs[AT_REGISTERS_MAX]);

/* What the next instruction would show the program of a single step. */
struct at_look {
	bool is_pushf;
	bool sets_flags; /* popf, iret */
	/* after such a step the kernel takes its own trap flag for the program's */
	bool has_lost_mark;
	uint64_t after_syscall; /* 0: it is not one */
	uint64_t breakpoint;	/* its address, where a uprobe or the program has an int3; else 0 */
};

int at_look(pid_t tid, struct at_look *look);
/*
 * Executes the next instruction here if a step of it would leave the trap flag behind: then the
 * kernel takes that for the program's. 1: done; 0: it is another one; or -errno.
 */
int at_look_instead(pid_t tid);
/* After the step: hides it. The same look serves all steps from a stop to the resumption. */
int at_look_hide(pid_t tid, struct at_look *look);
/*
 * True: a SIGTRAP that looks like a sent one is the end of that step. The kernel reports the step
 * of an instruction with a uprobe in this way (arch_uprobe_post_xol). The program would die of it.
 */
bool at_look_is_step(pid_t tid, const struct at_look *look);

#endif
