/* SPDX-License-Identifier: MIT */
/*
 * tracee_x86_64.c - a process that shares Trapline's memory and is traced by the thread that made
 * it.
 *
 * It uses neither stack nor thread-local data, since both are those of that thread. Its text is
 * where no trap is ever placed: with all signals blocked a trap would end it.
 */
#include "code/mem.h"

/* clone(CLONE_VM | CLONE_FILES | CLONE_UNTRACED | CLONE_PIDFD): a debugger does not get it. */
__asm__(".pushsection trap_path, \"ax\", @progbits\n"
	".globl tracee_clone\n"
	".hidden tracee_clone\n"
	".type tracee_clone, @function\n"
	"tracee_clone:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	mov %rdi, %r8\n"
	"	mov %esi, %r9d\n"
	"	mov $0x00801500, %edi\n"
	"	xor %esi, %esi\n"
	"	xor %r10d, %r10d\n"
	"	mov $56, %eax\n" /* clone(flags, 0, pidfd, NULL); r8 is not inspected */
	"	syscall\n"
	"	test %rax, %rax\n"
	"	jz 1f\n"
	"	ret\n"
	"1:	mov $157, %eax\n" /* prctl(PR_SET_PDEATHSIG, SIGKILL) */
	"	mov $1, %edi\n"
	"	mov $9, %esi\n"
	"	syscall\n"
	"	mov $110, %eax\n" /* getppid(): the thread may have ended before */
	"	syscall\n"
	"	cmp %r9d, %eax\n"
	"	jne 3f\n"
	"	mov $101, %eax\n" /* ptrace(PTRACE_TRACEME) */
	"	xor %edi, %edi\n"
	"	xor %esi, %esi\n"
	"	xor %edx, %edx\n"
	"	xor %r10d, %r10d\n"
	"	syscall\n"
	"	mov $1, %edi\n"
	"	test %rax, %rax\n"
	"	jz 2f\n"
	"	inc %edi\n"
	"2:	mov %edi, (%r8)\n"
	"	mov $202, %eax\n" /* futex(state, FUTEX_WAKE, 1) */
	"	mov %r8, %rdi\n"
	"	mov $1, %esi\n"
	"	mov $1, %edx\n"
	"	syscall\n"
	"4:	mov $34, %eax\n" /* pause() until killed */
	"	syscall\n"
	"	jmp 4b\n"
	"3:	mov $60, %eax\n" /* exit(0) */
	"	xor %edi, %edi\n"
	"	syscall\n"
	"	ud2\n"
	"	.cfi_endproc\n"
	".size tracee_clone, . - tracee_clone\n"
	".popsection\n");
