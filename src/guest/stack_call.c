/* SPDX-License-Identifier: MIT */
/* stack_call.c - see stack_call.h. Its own description for unwinders leads back to the caller. */
#include "guest/stack_call.h"

__asm__(".text\n"
	"	.p2align 4, 0xcc\n"
	"	.globl stack_call\n"
	"	.hidden stack_call\n"
	"	.type stack_call, @function\n"
	"stack_call:\n"
	"	.cfi_startproc\n"
	"	pushq %rbp\n"
	"	.cfi_def_cfa_offset 16\n"
	"	.cfi_offset %rbp, -16\n"
	"	movq %rsp, %rbp\n"
	"	.cfi_def_cfa_register %rbp\n"
	"	movq %rdi, %rsp\n"
	"	movq %rdx, %rdi\n"
	"	call *%rsi\n"
	"	leave\n"
	"	.cfi_def_cfa %rsp, 8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"	.size stack_call, . - stack_call\n");
