/* SPDX-License-Identifier: MIT */
/*
 * probe_arch.h - what probes need in machine code, by architecture.
 *
 * Accesses are single instructions: a compiler must not merge, widen or repeat them.
 */
#ifndef CHECK_PROBE_ARCH_H
#define CHECK_PROBE_ARCH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#define PROBE_CODE_MAX 16

/*
 * Two functions in Trapline's own text: probe_site() does nothing (a uprobe at its first
 * instruction is emulated, without a single step), probe_number() returns 1 until it is
 * patched.
 */
extern void probe_site(void) __attribute__((visibility("hidden")));
extern int probe_number(void) __attribute__((visibility("hidden")));

#if defined(__x86_64__)

#define PROBE_SITE_ASM                                                               \
	".pushsection .text\n"                                                       \
	".p2align 4\n"                                                               \
	".globl probe_site\n.hidden probe_site\n.type probe_site, @function\n"       \
	"probe_site: nop\nret\n.size probe_site, .-probe_site\n"                     \
	".p2align 4\n"                                                               \
	".globl probe_number\n.hidden probe_number\n.type probe_number, @function\n" \
	"probe_number: movl $1, %eax\nret\n.size probe_number, .-probe_number\n"     \
	".popsection\n"

static inline void probe_store(volatile void *p, int len, uint64_t v)
{
	switch (len) {
	case 1:
		__asm__ volatile("movb %b1, (%0)" : : "r"(p), "q"(v) : "memory");
		break;
	case 2:
		__asm__ volatile("movw %w1, (%0)" : : "r"(p), "r"(v) : "memory");
		break;
	case 4:
		__asm__ volatile("movl %k1, (%0)" : : "r"(p), "r"(v) : "memory");
		break;
	default:
		__asm__ volatile("movq %1, (%0)" : : "r"(p), "r"(v) : "memory");
	}
}

static inline uint64_t probe_load(const volatile void *p)
{
	uint64_t v;

	__asm__ volatile("movq (%1), %0" : "=r"(v) : "r"(p) : "memory");
	return v;
}

/* Data hits come after the access, and the kernel sets RF for breakpoints: nothing to do.
 */
static inline void probe_step_past(ucontext_t *uc)
{
	(void)uc;
}

/* int3 leaves the program counter behind itself. */
static inline void probe_step_past_trap(ucontext_t *uc)
{
	(void)uc;
}

/* A function that traps and returns. */
static inline size_t probe_trap_code(uint8_t *buf)
{
	static const uint8_t code[] = { 0xcc, 0xc3 };

	memcpy(buf, code, sizeof(code));
	return sizeof(code);
}

/* A function that returns n; as long as probe_number(). */
static inline size_t probe_return_code(uint8_t *buf, uint8_t n)
{
	const uint8_t code[] = { 0xb8, n, 0, 0, 0, 0xc3 };

	memcpy(buf, code, sizeof(code));
	return sizeof(code);
}

#define PROBE_READ_ONLY_REMEDY "watch reads and writes: x86-64 cannot watch reads alone"
#define PROBE_SYSCALL_REMEDY "none: this kernel reported no access made inside a system call"
#define PROBE_TRAP_NAME "int3"

#elif defined(__aarch64__)

#define PROBE_SITE_ASM                                                               \
	".pushsection .text\n"                                                       \
	".p2align 4\n"                                                               \
	".globl probe_site\n.hidden probe_site\n.type probe_site, %function\n"       \
	"probe_site: nop\nret\n.size probe_site, .-probe_site\n"                     \
	".p2align 4\n"                                                               \
	".globl probe_number\n.hidden probe_number\n.type probe_number, %function\n" \
	"probe_number: mov w0, #1\nret\n.size probe_number, .-probe_number\n"        \
	".popsection\n"

static inline void probe_store(volatile void *p, int len, uint64_t v)
{
	switch (len) {
	case 1:
		__asm__ volatile("strb %w1, [%0]" : : "r"(p), "r"(v) : "memory");
		break;
	case 2:
		__asm__ volatile("strh %w1, [%0]" : : "r"(p), "r"(v) : "memory");
		break;
	case 4:
		__asm__ volatile("str %w1, [%0]" : : "r"(p), "r"(v) : "memory");
		break;
	default:
		__asm__ volatile("str %x1, [%0]" : : "r"(p), "r"(v) : "memory");
	}
}

static inline uint64_t probe_load(const volatile void *p)
{
	uint64_t v;

	__asm__ volatile("ldr %0, [%1]" : "=r"(v) : "r"(p) : "memory");
	return v;
}

/*
 * The kernel reports before the access and again after each signal return, for ever; a
 * probe does not need the access itself, so it is skipped.
 */
static inline void probe_step_past(ucontext_t *uc)
{
	uc->uc_mcontext.pc += 4;
}

/* brk leaves the program counter on itself. */
static inline void probe_step_past_trap(ucontext_t *uc)
{
	uc->uc_mcontext.pc += 4;
}

static inline size_t probe_trap_code(uint8_t *buf)
{
	static const uint32_t code[] = { 0xd4200000, 0xd65f03c0 };

	memcpy(buf, code, sizeof(code));
	return sizeof(code);
}

static inline size_t probe_return_code(uint8_t *buf, uint8_t n)
{
	const uint32_t code[] = { 0x52800000 | (uint32_t)n << 5, 0xd65f03c0 };

	memcpy(buf, code, sizeof(code));
	return sizeof(code);
}

#define PROBE_READ_ONLY_REMEDY "use read and write"
#define PROBE_SYSCALL_REMEDY "none: arm64 never reports accesses made inside system calls"
#define PROBE_TRAP_NAME "brk"

#endif

#endif
