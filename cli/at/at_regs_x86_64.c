/* SPDX-License-Identifier: MIT */
/* at_regs_x86_64.c - see at_regs.h. */
#include "cli/at/at_regs.h"

#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>

#define TRAP_FLAG 0x100u
#define INT3 0xcc
#define PREFIXES_MAX 4
#define PUSHF 0x9c
#define POPF 0x9d
#define IRET 0xcf

const bool at_can_step = true;
const size_t at_register_count = 17;
const size_t at_register_sp = 7;
const char *const at_register_names[] = {
	"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8",
	"r9",  "r10", "r11", "r12", "r13", "r14", "r15", "rip",
};

int at_regs_read(pid_t tid, uint64_t regs[AT_REGISTERS_MAX])
{
	struct user_regs_struct r;

	if (ptrace(PTRACE_GETREGS, tid, NULL, &r))
		return -errno;
	const uint64_t all[] = { r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8,
				 r.r9,	r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rip };
	memcpy(regs, all, sizeof(all));
	return 0;
}

/*
 * The access is aligned, since the next page may not be mapped. Unreadable bytes are
 * 0xff: not an instruction that matters here.
 */
static uint8_t byte_at(pid_t tid, uint64_t address)
{
	long word = ptrace(PTRACE_PEEKTEXT, tid, (void *)(address & ~7ull), NULL);

	return (uint8_t)((uint64_t)word >> address % 8 * 8);
}

static uint8_t opcode_at(pid_t tid, uint64_t ip)
{
	uint8_t byte = byte_at(tid, ip);

	for (int i = 0; i < PREFIXES_MAX && (byte == 0x66 || byte >> 4 == 4); i++)
		byte = byte_at(tid, ++ip);
	return byte;
}

static bool is_syscall(pid_t tid, uint64_t ip)
{
	return byte_at(tid, ip) == 0x0f && byte_at(tid, ip + 1) == 0x05;
}

int at_look(pid_t tid, struct at_look *look)
{
	struct user_regs_struct r;

	if (ptrace(PTRACE_GETREGS, tid, NULL, &r))
		return -errno;
	const uint8_t opcode = opcode_at(tid, r.rip);
	look->is_pushf = opcode == PUSHF;
	look->sets_flags = opcode == POPF || opcode == IRET;
	look->after_syscall = is_syscall(tid, r.rip) ? r.rip + 2 : 0;
	look->breakpoint = byte_at(tid, r.rip) == INT3 ? r.rip : 0;
	return 0;
}

bool at_look_is_step(pid_t tid, const struct at_look *look)
{
	struct user_regs_struct r;

	return look->breakpoint && !ptrace(PTRACE_GETREGS, tid, NULL, &r) &&
	       r.rip != look->breakpoint;
}

#define POPF_SETS 0x40cd5u   /* alignment check, overflow, direction, sign, zero, ... */
#define POPF_OTHER 0x204100u /* identification, nested task, trap: by the processor */

int at_look_instead(pid_t tid)
{
	struct user_regs_struct r;

	if (ptrace(PTRACE_GETREGS, tid, NULL, &r))
		return -errno;
	if (byte_at(tid, r.rip) != POPF || r.rsp % 8)
		return 0;
	errno = 0;
	const uint64_t flags = (uint64_t)ptrace(PTRACE_PEEKDATA, tid, (void *)r.rsp, NULL);
	if (errno || (flags ^ (r.eflags & ~(uint64_t)TRAP_FLAG)) & POPF_OTHER)
		return 0;
	r.eflags = (r.eflags & ~(uint64_t)POPF_SETS) | (flags & POPF_SETS);
	r.rsp += 8;
	r.rip++;
	return ptrace(PTRACE_SETREGS, tid, NULL, &r) ? -errno : 1;
}

/*
 * Two instructions show the trap flag to the program: pushf, and syscall, which leaves
 * the flags in r11. If the program kept it, a later popf would trap after the steps.
 *
 * After popf and iret the kernel forgets that the flag is its own (enable_single_step() in
 * arch/x86/kernel/step.c). It would stay, and the program die of SIGTRAP, so that each further step
 * takes it away. A flag that the program sets itself is there after the step of popf.
 */
int at_look_hide(pid_t tid, struct at_look *look)
{
	struct user_regs_struct r;

	if (!look->is_pushf && !look->after_syscall && !look->sets_flags && !look->has_lost_mark)
		return 0;
	if (ptrace(PTRACE_GETREGS, tid, NULL, &r))
		return -errno;
	if (look->sets_flags)
		look->has_lost_mark = !(r.eflags & TRAP_FLAG);
	const bool is_left = look->has_lost_mark && r.eflags & TRAP_FLAG;
	r.eflags &= is_left ? ~(uint64_t)TRAP_FLAG : UINT64_MAX;
	if (is_left && ptrace(PTRACE_SETREGS, tid, NULL, &r))
		return -errno;
	if (look->is_pushf) {
		errno = 0;
		long word = ptrace(PTRACE_PEEKDATA, tid, (void *)r.rsp, NULL);
		if (errno || ptrace(PTRACE_POKEDATA, tid, (void *)r.rsp,
				    (void *)((uint64_t)word & ~(uint64_t)TRAP_FLAG)))
			return -errno;
	} else if (look->after_syscall && r.rip == look->after_syscall) {
		/*
		 * At another address it returned from a handler, and r11 is that of the
		 * interrupted code.
		 */
		r.r11 &= ~(uint64_t)TRAP_FLAG;
		if (ptrace(PTRACE_SETREGS, tid, NULL, &r))
			return -errno;
	}
	return 0;
}
