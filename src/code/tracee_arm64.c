/* SPDX-License-Identifier: MIT */
/* tracee_arm64.c - as tracee_x86_64.c. */
#include "code/mem.h"

__asm__(".pushsection trap_path, \"ax\", %progbits\n"
	".globl tracee_clone\n"
	".hidden tracee_clone\n"
	".type tracee_clone, %function\n"
	"tracee_clone:\n"
	"	.cfi_startproc\n"
	"	hint #34\n" /* bti c */
	"	mov x9, x0\n"
	"	mov w10, w1\n"
	"	movz x0, #0x1500\n"
	"	movk x0, #0x80, lsl #16\n"
	"	mov x1, #0\n"
	"	mov x3, #0\n"
	"	mov x4, #0\n"
	"	mov x8, #220\n" /* clone(flags, 0, pidfd, 0, NULL) */
	"	svc #0\n"
	"	cbz x0, 1f\n"
	"	ret\n"
	"1:	mov x8, #167\n" /* prctl(PR_SET_PDEATHSIG, SIGKILL) */
	"	mov x0, #1\n"
	"	mov x1, #9\n"
	"	svc #0\n"
	"	mov x8, #173\n" /* getppid() */
	"	svc #0\n"
	"	cmp w0, w10\n"
	"	b.ne 3f\n"
	"	mov x8, #117\n" /* ptrace(PTRACE_TRACEME) */
	"	mov x0, #0\n"
	"	mov x1, #0\n"
	"	mov x2, #0\n"
	"	mov x3, #0\n"
	"	svc #0\n"
	"	mov w11, #1\n"
	"	cbz x0, 2f\n"
	"	mov w11, #2\n"
	"2:	stlr w11, [x9]\n"
	"	mov x8, #98\n" /* futex(state, FUTEX_WAKE, 1) */
	"	mov x0, x9\n"
	"	mov x1, #1\n"
	"	mov x2, #1\n"
	"	svc #0\n"
	"5:	mov x8, #98\n" /* futex(state, FUTEX_WAIT, its value, NULL) until killed */
	"	mov x0, x9\n"
	"	mov x1, #0\n"
	"	mov w2, w11\n"
	"	mov x3, #0\n"
	"	svc #0\n"
	"	b 5b\n"
	"3:	mov x8, #93\n" /* exit(0) */
	"	mov x0, #0\n"
	"	svc #0\n"
	"	brk #0\n"
	"	.cfi_endproc\n"
	".size tracee_clone, . - tracee_clone\n"
	".popsection\n");
