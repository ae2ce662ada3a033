/* SPDX-License-Identifier: MIT */
/*
 * at_regs_arm64.c - see at_regs.h. The program cannot see a single step: its bit is in no register.
 */
#include "cli/at/at_regs.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

const bool at_can_step = false;
const size_t at_register_count = 33;
const size_t at_register_sp = 31;
const char *const at_register_names[] = {
	"x0",  "x1",  "x2",  "x3",  "x4",  "x5",  "x6",	 "x7",	"x8",  "x9",  "x10",
	"x11", "x12", "x13", "x14", "x15", "x16", "x17", "x18", "x19", "x20", "x21",
	"x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", "x30", "sp",  "pc",
};

int at_regs_read(pid_t tid, uint64_t regs[AT_REGISTERS_MAX])
{
	struct user_regs_struct r;
	struct iovec io = { &r, sizeof(r) };

	if (ptrace(PTRACE_GETREGSET, tid, (void *)NT_PRSTATUS, &io))
		return -errno;
	memcpy(regs, r.regs, sizeof(r.regs));
	regs[31] = r.sp;
	regs[32] = r.pc;
	return 0;
}

int at_look(pid_t tid, struct at_look *look)
{
	return 0;
}

int at_look_hide(pid_t tid, struct at_look *look)
{
	return 0;
}

int at_look_instead(pid_t tid)
{
	return 0;
}

bool at_look_is_step(pid_t tid, const struct at_look *look)
{
	return false;
}
