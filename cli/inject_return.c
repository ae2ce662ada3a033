// SPDX-License-Identifier: MIT
/* inject_return.c - see inject_return.h. */
#include "cli/inject_return.h"

#include "cli/inject_thread.h"
#include "cli/program.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

/*
 * What is copied into the target. At a call: the function in r12, where its result goes in rbx and
 * behind it that it is there, errno's place (or 0) in r13 and what was there in r14, the frame in
 * r15. Functions leave these as they are. Then we have a second to come.
 */
__asm__(".pushsection .rodata\n"
	"held_code:\n"
	"	call *%r12\n"
	"	mov %rax, (%rbx)\n"
	"	movl $1, 8(%rbx)\n"
	"	mov $100, %r12d\n"
	"1:	mov $7, %eax\n" /* poll(NULL, 0, 10) */
	"	xor %edi, %edi\n"
	"	xor %esi, %esi\n"
	"	mov $10, %edx\n"
	"	syscall\n"
	"	dec %r12d\n"
	"	jnz 1b\n"
	"2:	test %r13, %r13\n"
	"	jz 3f\n"
	"	mov %r14d, (%r13)\n"
	"3:	mov %r15, %rsp\n"
	"	mov $15, %eax\n" /* rt_sigreturn */
	"	syscall\n"
	"held_code_syscall:\n"
	"	syscall\n"
	"	jmp 2b\n"
	"held_code_end:\n"
	".popsection\n");

extern const uint8_t held_code[], held_code_syscall[], held_code_end[];

#define FRAME_AT 128u
#define FRAME_MAX (RETURN_BYTES - FRAME_AT)
#define RED_ZONE 128u
#define CODE_MAX (16u << 20)

/* Linux: arch/x86/include/uapi/asm/ucontext.h and sigcontext.h. */
#define FRAME_HAS_XSTATE 1u
#define FRAME_HAS_SS 2u
#define FRAME_STRICT_SS 4u
#define NO_STACK_FLAGS 0x4000 /* none that the kernel knows: the signal stack stays as it is */
#define XSTATE_MAGIC1 0x46505853u
#define XSTATE_MAGIC2 0x46505845u
#define XSTATE_WORDS_AT 464u

struct xstate_words {
	uint32_t magic1;
	uint32_t extended_size;
	uint64_t features;
	uint32_t size;
};

/* The kernel's numbers for "begin this call again", in rax of a thread that was stopped inside one. */
#define RESTART_FIRST 512
#define RESTART_LAST 516

/* What ptrace would have had the kernel do with the call that the thread was in. */
static void restart_call(const struct user_regs_struct *r, greg_t *gregs)
{
	long result = (long)r->rax;
	bool is_restart = (result <= -RESTART_FIRST && result >= -RESTART_FIRST - 2) ||
			  result == -RESTART_LAST;

	if ((long)r->orig_rax < 0 || !is_restart)
		return;
	gregs[REG_RAX] = (greg_t)r->orig_rax;
	gregs[REG_RIP] -= 2;
}

static void fill_registers(const struct user_regs_struct *r, greg_t *gregs)
{
	const unsigned long long values[] = { r->r8,  r->r9,  r->r10, r->r11, r->r12, r->r13,
					      r->r14, r->r15, r->rdi, r->rsi, r->rbp, r->rbx,
					      r->rdx, r->rax, r->rcx, r->rsp, r->rip, r->eflags,
					      (r->cs & 0xffff) | r->ss << 48 };

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		gregs[i] = (greg_t)values[i];
	restart_call(r, gregs);
}

/* The bytes of a frame that will stand at address. Returns how many, 0: it does not fit. */
static size_t make_frame(const struct held_thread *t, uint64_t address, uint8_t *bytes, size_t size)
{
	uint64_t xstate_at = (address + sizeof(ucontext_t) + 63) & ~63ull;
	size_t offset = xstate_at - address;
	size_t end = offset + t->xstate_size + sizeof(uint32_t);
	const uint32_t magic2 = XSTATE_MAGIC2;
	struct xstate_words words = { XSTATE_MAGIC1, (uint32_t)(t->xstate_size + sizeof(magic2)), 0,
				      (uint32_t)t->xstate_size };
	ucontext_t context;

	if (end > size || t->xstate_size < XSTATE_WORDS_AT + sizeof(words))
		return 0;
	memset(bytes, 0, offset);
	memset(&context, 0, sizeof(context));
	context.uc_flags = FRAME_HAS_XSTATE | FRAME_HAS_SS | FRAME_STRICT_SS;
	context.uc_stack.ss_flags = NO_STACK_FLAGS;
	fill_registers(&t->saved, context.uc_mcontext.gregs);
	context.uc_mcontext.fpregs = (fpregset_t)(uintptr_t)xstate_at;
	memcpy(&context.uc_sigmask, &t->saved_mask, sizeof(t->saved_mask));
	/* The mask is the last of what the kernel reads; glibc's structure goes on behind it. */
	memcpy(bytes, &context, sizeof(context));
	memcpy(bytes + offset, t->xstate, t->xstate_size);
	memcpy(&words.features, t->xstate + XSTATE_WORDS_AT, sizeof(words.features));
	memcpy(bytes + offset + XSTATE_WORDS_AT, &words, sizeof(words));
	memcpy(bytes + offset + t->xstate_size, &magic2, sizeof(magic2));
	return end;
}

int return_write(const struct held_thread *t)
{
	static uint8_t bytes[RETURN_BYTES];
	size_t n = make_frame(t, t->mapped + FRAME_AT, bytes + FRAME_AT, FRAME_MAX);

	if (!n)
		return -E2BIG;
	memcpy(bytes, held_code, (size_t)(held_code_end - held_code));
	n += FRAME_AT;
	return pwrite(t->memory_fd, bytes, n, (off_t)t->mapped) == (ssize_t)n ? 0 : -EFAULT;
}

static void set_way_back(const struct held_thread *t, struct user_regs_struct *regs)
{
	regs->r13 = t->errno_at;
	regs->r14 = (unsigned long long)t->errno_saved;
	regs->r15 = t->mapped + FRAME_AT;
	regs->orig_rax = (unsigned long long)-1;
}

void return_for_syscall(const struct held_thread *t, struct user_regs_struct *regs)
{
	*regs = t->saved;
	set_way_back(t, regs);
	regs->rip = t->mapped + (uint64_t)(held_code_syscall - held_code);
}

void return_for_call(const struct held_thread *t, uint64_t function, uint64_t stack,
		     uint64_t result_at, struct user_regs_struct *regs)
{
	*regs = t->saved;
	set_way_back(t, regs);
	regs->rip = t->mapped;
	regs->rsp = stack;
	regs->rbx = result_at;
	regs->r12 = function;
	regs->rax = 0;
	regs->eflags &= ~0x400ull; /* direction flag: clear at every call */
}

bool return_is_reached(const struct held_thread *t, const struct user_regs_struct *regs)
{
	return regs->rip - t->mapped < (uint64_t)(held_code_end - held_code);
}

bool return_is_code(int memory_fd, uint64_t address)
{
	const size_t n = (size_t)(held_code_end - held_code);
	uint8_t bytes[FRAME_AT];

	return pread(memory_fd, bytes, n, (off_t)(address & ~4095ull)) == (ssize_t)n &&
	       !memcmp(bytes, held_code, n);
}

/* Below what the thread uses of its stack: where a frame that it returns to will stand. */
static uint64_t frame_on_own_stack(const struct held_thread *t)
{
	const size_t below = (sizeof(ucontext_t) + t->xstate_size + 128 + 63) & ~63ul;

	return ((t->saved.rsp - RED_ZONE - below) & ~63ull) - sizeof(uint64_t);
}

/* Nothing of anybody else lies there: it is the main thread's, or ends at a page nobody may touch. */
bool return_has_way_back(const struct held_thread *t)
{
	uint64_t start;
	uint64_t end;
	uint64_t at[2];

	if (!t->gadgets.restore_at || !program_mapping(t->pid, NULL, t->saved.rsp, &start, &end) ||
	    frame_on_own_stack(t) < start)
		return false;
	return program_mapping(t->pid, "[stack]", start, &at[0], &at[1]) ||
	       program_mapping(t->pid, " ---p ", start - 1, &at[0], &at[1]);
}

/* As after a call of the function whose code is nothing but the system call. */
void return_on_own_stack(const struct held_thread *t, struct user_regs_struct *regs)
{
	static uint8_t bytes[sizeof(uint64_t) + RETURN_BYTES];
	uint64_t at = frame_on_own_stack(t);

	*regs = t->saved;
	regs->rip = t->gadgets.syscall_at;
	regs->orig_rax = (unsigned long long)-1;
	if (!return_has_way_back(t))
		return;
	memcpy(bytes, &t->gadgets.restore_at, sizeof(uint64_t));
	size_t n = make_frame(t, at + sizeof(uint64_t), bytes + sizeof(uint64_t), RETURN_BYTES);
	n += sizeof(uint64_t);
	if (n > sizeof(uint64_t) && pwrite(t->memory_fd, bytes, n, (off_t)at) == (ssize_t)n)
		regs->rsp = at;
}

static const uint8_t syscall_return[] = { 0x0f, 0x05, 0xc3 };
#define SYSCALL_BYTES 2u /* of those */

static uint64_t find_bytes(const uint8_t *code, size_t n, const void *wanted, size_t length,
			   uint64_t start)
{
	const uint8_t *found = memmem(code, n, wanted, length);

	return found ? start + (uint64_t)(found - code) : 0;
}

/* The vdso has one for the calls that it cannot answer itself. */
static uint64_t find_vdso_syscall(pid_t pid, int memory_fd)
{
	uint8_t code[16384];
	uint64_t start;
	uint64_t end;

	if (!program_mapping(pid, "[vdso]", 0, &start, &end))
		return 0;
	ssize_t n = pread(memory_fd, code, sizeof(code), (off_t)start);
	return n > 0 ? find_bytes(code, (size_t)n, syscall_return, SYSCALL_BYTES, start) : 0;
}

bool return_find_gadgets(pid_t pid, int memory_fd, uint64_t address, struct return_gadgets *out)
{
	static const uint8_t restore[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	uint64_t start;
	uint64_t end;
	uint8_t *code = NULL;

	memset(out, 0, sizeof(*out));
	if (program_mapping(pid, NULL, address, &start, &end) && end - start <= CODE_MAX)
		code = malloc(end - start);
	ssize_t n = code ? pread(memory_fd, code, end - start, (off_t)start) : 0;
	if (n > 0) {
		out->syscall_at = find_bytes(code, (size_t)n, syscall_return,
					     sizeof(syscall_return), start);
		out->restore_at = find_bytes(code, (size_t)n, restore, sizeof(restore), start);
	}
	free(code);
	if (!out->syscall_at || !out->restore_at)
		*out = (struct return_gadgets){ find_vdso_syscall(pid, memory_fd), 0 };
	return out->syscall_at != 0;
}
