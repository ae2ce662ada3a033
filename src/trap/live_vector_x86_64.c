/* SPDX-License-Identifier: MIT */
/*
 * live_vector_x86_64.c - vector registers of a thread from a probe, before they are saved.
 *
 * By the assembler alone: a compiler would be free to use those registers itself.
 */
#include "trap/probe_entry.h"

#define READ(number) "movq %xmm" #number ", %rax\nret\n.balign 8\n"

/* Each row has 8 bytes. */
__asm__(".pushsection trap_path, \"ax\", @progbits\n"
	".globl trap_live_vector\n"
	".hidden trap_live_vector\n"
	".type trap_live_vector, @function\n"
	".balign 8\n"
	"trap_live_vector:\n"
	".cfi_startproc\n"
	"mov %edi, %edi\n"
	"lea 1f(%rip), %rax\n"
	"lea (%rax,%rdi,8), %rax\n"
	"notrack jmp *%rax\n"
	".balign 8\n"
	"1:\n" READ(0) READ(1) READ(2) READ(3) READ(4) READ(5) READ(6) READ(7) READ(8) READ(9)
		READ(10) READ(11) READ(12) READ(13) READ(14)
			READ(15) ".cfi_endproc\n"
				 ".size trap_live_vector, . - trap_live_vector\n"
				 ".popsection\n");
