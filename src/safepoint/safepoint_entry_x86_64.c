/* SPDX-License-Identifier: MIT */
/*
 * safepoint_entry_x86_64.c - the public functions in which a thread may be visited. They save the
 * registers that belong to the caller, and pass on where these are as an argument behind the
 * others.
 *
 * Compiled code would have moved them already, into a frame whose layout is not known.
 */
#define ENTRY(name, to, argument)             \
	__asm__(".text\n"                     \
		".globl " name "\n"           \
		".type " name ", @function\n" \
		".balign 16\n" name ":\n"     \
		".cfi_startproc\n"            \
		"endbr64\n"                   \
		"push %rbp\n"                 \
		".cfi_adjust_cfa_offset 8\n"  \
		".cfi_rel_offset %rbp, 0\n"   \
		"push %rbx\n"                 \
		".cfi_adjust_cfa_offset 8\n"  \
		".cfi_rel_offset %rbx, 0\n"   \
		"push %r12\n"                 \
		".cfi_adjust_cfa_offset 8\n"  \
		".cfi_rel_offset %r12, 0\n"   \
		"push %r13\n"                 \
		".cfi_adjust_cfa_offset 8\n"  \
		".cfi_rel_offset %r13, 0\n"   \
		"push %r14\n"                 \
		".cfi_adjust_cfa_offset 8\n"  \
		".cfi_rel_offset %r14, 0\n"   \
		"push %r15\n"                 \
		".cfi_adjust_cfa_offset 8\n"  \
		".cfi_rel_offset %r15, 0\n"   \
		"sub $8, %rsp\n"              \
		".cfi_adjust_cfa_offset 8\n"  \
		"mov %rsp, %" argument "\n"   \
		"call " to "\n"               \
		"add $8, %rsp\n"              \
		".cfi_adjust_cfa_offset -8\n" \
		"pop %r15\n"                  \
		".cfi_adjust_cfa_offset -8\n" \
		"pop %r14\n"                  \
		".cfi_adjust_cfa_offset -8\n" \
		"pop %r13\n"                  \
		".cfi_adjust_cfa_offset -8\n" \
		"pop %r12\n"                  \
		".cfi_adjust_cfa_offset -8\n" \
		"pop %rbx\n"                  \
		".cfi_adjust_cfa_offset -8\n" \
		"pop %rbp\n"                  \
		".cfi_adjust_cfa_offset -8\n" \
		"ret\n"                       \
		".cfi_endproc\n"              \
		".size " name ", . - " name "\n")

ENTRY("trapline_safepoint_arrive", "safepoint_arrive", "rdi");
ENTRY("trapline_safepoint_enter_native", "safepoint_enter_native", "rdi");
ENTRY("trapline_safepoint_stop", "safepoint_stop", "r8");
ENTRY("trapline_safepoint_handshake", "safepoint_handshake", "r9");
