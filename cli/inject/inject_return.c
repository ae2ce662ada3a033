/* SPDX-License-Identifier: MIT */
/* inject_return.c - see inject_return.h. */
#include "cli/inject/inject_return.h"

#include "base/maps.h"
#include "cli/inject/inject_thread.h"
#include "cli/launch/program.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define FRAME_RSP 160
#define FRAME_RAX 144
#define FRAME_MASK 296
#define FRAME_BYTES 968
#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

/*
 * The code that is copied into the target. At a call r12 is the function, rbx the address of its
 * result, followed by a flag that the result is there. r13 is the address of errno (or 0), r14 the
 * value of errno before, and r15 the frame. Functions preserve these registers. After the call, the
 * thread waits one second for trapline, by ppoll(2): other sleeps replace what the kernel keeps to
 * continue the call that the thread was in.
 *
 * The word before the frame has WAY_CONTINUES for such a call, which restart_syscall(2)
 * continues for the time that is left; rt_sigreturn(2) would discard it. It runs with the
 * signal mask and on the stack of the program, since a handler may run and leave by a
 * jump. Then a copy of the frame, on that stack, gets its result.
 *
 * Before that, a sample of Trapline's events that came in the meantime is taken out: the return of
 * its handler would discard the call as well. A SIGTRAP of the program is queued again. This is
 * also done for WAY_DROPS_TICK.
 */
__asm__(".pushsection .rodata\n"
	"held_code:\n"
	"	call *%r12\n"
	"	mov %rax, (%rbx)\n"
	"	movl $1, 8(%rbx)\n"
	"	mov $100, %r12d\n"
	"1:	mov $271, %eax\n" /* ppoll(NULL, 0, 10 ms, NULL) */
	"	xor %edi, %edi\n"
	"	xor %esi, %esi\n"
	"	push $10000000\n"
	"	push $0\n"
	"	mov %rsp, %rdx\n"
	"	xor %r10d, %r10d\n"
	"	syscall\n"
	"	add $16, %rsp\n"
	"	dec %r12d\n"
	"	jnz 1b\n"
	"2:	test %r13, %r13\n"
	"	jz 3f\n"
	"	mov %r14d, (%r13)\n"
	"3:	cmpq $0, -8(%r15)\n"
	"	jnz 5f\n"
	"4:	mov %r15, %rsp\n"
	"	mov $15, %eax\n" /* rt_sigreturn */
	"	syscall\n"
	"held_code_syscall:\n"
	"	syscall\n"
	"	jmp 2b\n"
	"5:	mov " TEXT(
		FRAME_RSP) "(%r15), %rsp\n"
			   "	add $-128, %rsp\n" /* the red zone */
			   "	add $-128, %rsp\n" /* siginfo */
			   "	push $0\n"
			   "	push $0\n"
			   "	push $0x10\n"	  /* a set of SIGTRAP */
			   "	mov $128, %eax\n" /* rt_sigtimedwait(set, siginfo, { 0, 0 }, 8) */
			   "	mov %rsp, %rdi\n"
			   "	lea 24(%rsp), %rsi\n"
			   "	lea 8(%rsp), %rdx\n"
			   "	mov $8, %r10d\n"
			   "	syscall\n"
			   "	cmp $5, %eax\n"
			   "	jne 6f\n"
			   "	mov 32(%rsp), %eax\n" /* si_code */
			   "	cmp $6, %eax\n"	      /* TRAP_PERF */
			   "	je 6f\n"
			   "	cmp $0x80, %eax\n" /* SI_KERNEL */
			   "	je 6f\n"
			   "	mov $186, %eax\n" /* gettid */
			   "	syscall\n"
			   "	mov %eax, %ebx\n"
			   "	mov $39, %eax\n" /* getpid */
			   "	syscall\n"
			   "	mov %eax, %edi\n"
			   "	mov %ebx, %esi\n"
			   "	mov $5, %edx\n"
			   "	lea 24(%rsp), %r10\n"
			   "	mov $297, %eax\n" /* rt_tgsigqueueinfo */
			   "	syscall\n"
			   "6:	add $152, %rsp\n"
			   "	testb $1, -8(%r15)\n" /* WAY_CONTINUES */
			   "	jz 4b\n"
			   "	mov $14, %eax\n" /* rt_sigprocmask(SIG_SETMASK, that of the frame, NULL, 8) */
			   "	mov $2, %edi\n"
			   "	lea " TEXT(
				   FRAME_MASK) "(%r15), %rsi\n"
					       "	xor %edx, %edx\n"
					       "	mov $8, %r10d\n"
					       "	syscall\n"
					       "	mov $219, %eax\n" /* restart_syscall */
					       "	syscall\n"
					       "	sub $" TEXT(
						       FRAME_BYTES) ", %rsp\n"
								    "	and $-16, %rsp\n"
								    "	mov %r15, %rsi\n"
								    "	mov %rsp, %rdi\n"
								    "	mov $" TEXT(
									    FRAME_BYTES) ", %ecx\n"
											 "	cld\n"
											 "	rep movsb\n"
											 "	mov %rsp, %r15\n"
											 "	mov %rax, " TEXT(
												 FRAME_RAX) "(%r15)\n"
													    "	jmp 4b\n"
													    "held_code_end:\n"
													    "	.org held_code + 368\n" /* FRAME_AT - 16: an error if the code is longer */
													    ".popsection\n");

/* What the code above has as numbers. */
_Static_assert(FRAME_RSP == offsetof(ucontext_t, uc_mcontext.gregs[REG_RSP]), "rsp");
_Static_assert(FRAME_RAX == offsetof(ucontext_t, uc_mcontext.gregs[REG_RAX]), "rax");
_Static_assert(FRAME_MASK == offsetof(ucontext_t, uc_sigmask), "mask");
_Static_assert(FRAME_BYTES == sizeof(ucontext_t), "frame");

extern const uint8_t held_code[], held_code_syscall[], held_code_end[];

#define FRAME_AT 384u
#define WAY_CONTINUES 1u
#define WAY_DROPS_TICK 2u
#define FRAME_MAX (RETURN_BYTES - FRAME_AT)
#define RED_ZONE 128u
#define CODE_MAX (16u << 20)
#define CHAIN_MAX 7 /* words */
#define SYSCALL_BYTES 2u

/* Linux: arch/x86/include/uapi/asm/ucontext.h and sigcontext.h. */
#define FRAME_HAS_XSTATE 1u
#define FRAME_HAS_SS 2u
#define FRAME_STRICT_SS 4u
#define NO_STACK_FLAGS 0x4000 /* not a value of the kernel: it leaves the signal stack as it is */
#define XSTATE_MAGIC1 0x46505853u
#define XSTATE_MAGIC2 0x46505845u
#define XSTATE_WORDS_AT 464u

struct xstate_words {
	uint32_t magic1;
	uint32_t extended_size;
	uint64_t features;
	uint32_t size;
};

/*
 * The kernel's numbers for "begin this call again", in rax of a thread that was stopped inside one.
 */
#define RESTART_FIRST 512
#define RESTART_LAST 516

bool return_is_restart(long result)
{
	return (result <= -RESTART_FIRST && result >= -RESTART_FIRST - 2) ||
	       result == -RESTART_LAST;
}

/*
 * What the kernel would have done with the interrupted call, had ptrace not intervened.
 */
static void restart_call(const struct user_regs_struct *r, greg_t *gregs)
{
	if ((long)r->orig_rax < 0 || !return_is_restart((long)r->rax))
		return;
	gregs[REG_RAX] = (greg_t)r->orig_rax;
	gregs[REG_RIP] -= 2;
}

bool return_begin_again(struct user_regs_struct *regs)
{
	const long result = (long)regs->rax;

	if ((long)regs->orig_rax < 0 || result > -RESTART_FIRST || result < -RESTART_FIRST - 2)
		return false;
	regs->rax = regs->orig_rax;
	regs->rip -= 2;
	regs->orig_rax = (unsigned long long)-1;
	return true;
}

/* The kernel keeps what is left of the call: the thread continues it by restart_syscall(2). */
static bool is_continued(const struct user_regs_struct *r)
{
	return (long)r->orig_rax >= 0 && (long)r->rax == -RESTART_LAST;
}

static void read_registers(const greg_t *gregs, struct user_regs_struct *r)
{
	unsigned long long *const to[] = { &r->r8,  &r->r9,  &r->r10, &r->r11, &r->r12, &r->r13,
					   &r->r14, &r->r15, &r->rdi, &r->rsi, &r->rbp, &r->rbx,
					   &r->rdx, &r->rax, &r->rcx, &r->rsp, &r->rip };

	for (size_t i = 0; i < sizeof(to) / sizeof(to[0]); i++)
		*to[i] = (unsigned long long)gregs[i];
}

static void fill_registers(const struct user_regs_struct *r, greg_t *gregs)
{
	const unsigned long long values[] = { r->r8,
					      r->r9,
					      r->r10,
					      r->r11,
					      r->r12,
					      r->r13,
					      r->r14,
					      r->r15,
					      r->rdi,
					      r->rsi,
					      r->rbp,
					      r->rbx,
					      r->rdx,
					      r->rax,
					      r->rcx,
					      r->rsp,
					      r->rip,
					      r->eflags,
					      (r->cs & 0xffff) | r->ss << 48 };

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		gregs[i] = (greg_t)values[i];
}

/*
 * Builds the bytes of a frame for this address; restarts: it begins an interrupted call
 * again. Returns how many; 0: it does not fit.
 */
static size_t make_frame(const struct held_thread *t, uint64_t address, bool restarts,
			 uint8_t *bytes, size_t size)
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
	if (restarts)
		restart_call(&t->saved, context.uc_mcontext.gregs);
	context.uc_mcontext.fpregs = (fpregset_t)(uintptr_t)xstate_at;
	memcpy(&context.uc_sigmask, &t->saved_mask, sizeof(t->saved_mask));
	/*
	 * The mask is the last member that the kernel reads; glibc's structure continues
	 * after it.
	 */
	memcpy(bytes, &context, sizeof(context));
	memcpy(bytes + offset, t->xstate, t->xstate_size);
	memcpy(&words.features, t->xstate + XSTATE_WORDS_AT, sizeof(words.features));
	memcpy(bytes + offset + XSTATE_WORDS_AT, &words, sizeof(words));
	memcpy(bytes + offset + t->xstate_size, &magic2, sizeof(magic2));
	return end;
}

/* A word that states that no thread needs the rest. A trapline that is killed does not set it. */
static int free_at(const struct held_thread *t, uint64_t mapped, bool is_write)
{
	uint64_t word = 1;
	const off_t at = (off_t)(mapped + FRAME_AT - 2 * sizeof(word));
	ssize_t n = is_write ? pwrite(t->memory_fd, &word, sizeof(word), at) :
			       pread(t->memory_fd, &word, sizeof(word), at);

	return n == sizeof(word) && word == 1;
}

static bool is_free(const struct maps_row *row, const void *arg)
{
	const struct held_thread *t = arg;

	return !strcmp(row->mode, "r-xp") && row->end - row->start == RETURN_BYTES &&
	       return_is_code(t->memory_fd, row->start) && free_at(t, row->start, false);
}

bool return_find_free(struct held_thread *t)
{
	uint64_t start;
	uint64_t end;

	if (flock(t->memory_fd, LOCK_EX | LOCK_NB) ||
	    !program_find_mapping(t->pid, is_free, t, &start, &end))
		return false;
	t->mapped = start;
	return true;
}

void return_free(const struct held_thread *t)
{
	free_at(t, t->mapped, true);
}

/*
 * The call that begins again may open SIGTRAP, which the thread has blocked: a pending sample would
 * end it.
 */
static bool opens_trap(const struct held_thread *t)
{
	struct user_regs_struct regs = t->saved;

	return t->saved_mask & TRAP_BIT && return_begin_again(&regs);
}

int return_write(const struct held_thread *t)
{
	static uint8_t bytes[RETURN_BYTES];
	const bool is_left = is_continued(&t->saved);
	const uint64_t way = (is_left ? WAY_CONTINUES : 0) | (opens_trap(t) ? WAY_DROPS_TICK : 0);
	size_t n = make_frame(t, t->mapped + FRAME_AT, !is_left, bytes + FRAME_AT, FRAME_MAX);

	if (!n)
		return -E2BIG;
	memcpy(bytes, held_code, (size_t)(held_code_end - held_code));
	memcpy(bytes + FRAME_AT - sizeof(way), &way, sizeof(way));
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

uint64_t return_way_back(const struct held_thread *t)
{
	return t->mapped + (uint64_t)(held_code_syscall - held_code) + SYSCALL_BYTES;
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
	regs->eflags &= ~0x400ull; /* direction flag: clear at each call */
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

/* The address of a frame to return to, below what the thread uses of its stack. */
static uint64_t frame_on_own_stack(const struct held_thread *t)
{
	const size_t below = (sizeof(ucontext_t) + t->xstate_size + 128 + 63) & ~63ul;

	return (t->saved.rsp - RED_ZONE - below) & ~63ull;
}

static bool can_continue(const struct held_thread *t)
{
	return is_continued(&t->saved) && t->gadgets.store_at;
}

/*
 * The addresses that the thread returns to, one after the other, up to the frame. A call that the
 * kernel continues continues first, and its result is stored in the frame, as the code above does
 * it. Returns how many.
 */
static size_t make_chain(const struct held_thread *t, uint64_t frame_at, uint64_t *words)
{
	const struct return_gadgets *g = &t->gadgets;
	const uint64_t place = frame_at + FRAME_RAX - (uint64_t)g->store_offset;
	const uint64_t chain[CHAIN_MAX] = {
		g->pop_result_at, SYS_restart_syscall, g->syscall_at, g->pop_place_at, place,
		g->store_at,	  g->restore_at
	};
	size_t skipped = can_continue(t) ? 0 : CHAIN_MAX - 1;

	memcpy(words, chain + skipped, (CHAIN_MAX - skipped) * sizeof(words[0]));
	return CHAIN_MAX - skipped;
}

/* It is the main thread's stack, or ends at a page without access. */
bool return_is_stack(pid_t pid, uint64_t rsp, uint64_t lowest)
{
	uint64_t start;
	uint64_t end;
	uint64_t at[2];
	struct maps_row below;

	if (!program_mapping(pid, NULL, rsp, &start, &end) || lowest < start)
		return false;
	return program_mapping(pid, "[stack]", rsp, &at[0], &at[1]) ||
	       (!maps_find(pid, start - 1, NULL, 0, &below) && !strcmp(below.mode, "---p"));
}

bool return_has_way_back(const struct held_thread *t)
{
	const uint64_t lowest = frame_on_own_stack(t) - CHAIN_MAX * sizeof(uint64_t);

	return t->gadgets.restore_at && return_is_stack(t->pid, t->saved.rsp, lowest);
}

bool return_needs_signals(const struct held_thread *t)
{
	return !t->mapped && can_continue(t) && return_has_way_back(t);
}

/* The state after a call of a function whose only code is the system call. */
void return_on_own_stack(const struct held_thread *t, struct user_regs_struct *regs)
{
	static uint8_t bytes[CHAIN_MAX * sizeof(uint64_t) + RETURN_BYTES];
	const uint64_t frame_at = frame_on_own_stack(t);
	uint64_t words[CHAIN_MAX];

	*regs = t->saved;
	regs->rip = t->gadgets.syscall_at;
	regs->orig_rax = (unsigned long long)-1;
	if (!return_has_way_back(t))
		return;
	size_t chain = make_chain(t, frame_at, words) * sizeof(words[0]);
	size_t n = make_frame(t, frame_at, !can_continue(t), bytes + chain, RETURN_BYTES);
	const uint64_t at = frame_at - chain;

	memcpy(bytes, words, chain);
	if (n && pwrite(t->memory_fd, bytes, chain + n, (off_t)at) == (ssize_t)(chain + n))
		regs->rsp = at;
}

static const uint8_t syscall_return[] = { 0x0f, 0x05, 0xc3 };

/* 0: it is in no such call. */
static uint64_t frame_behind(int memory_fd, const struct return_gadgets *g,
			     const struct user_regs_struct *r)
{
	const uint64_t chain[] = { g->pop_place_at, 0, g->store_at, g->restore_at };
	uint64_t words[sizeof(chain) / sizeof(chain[0])];

	if ((long)r->orig_rax != SYS_restart_syscall)
		return 0;
	if (return_is_code(memory_fd, r->rip))
		return r->r15;
	if (r->rip != g->syscall_at + SYSCALL_BYTES || !g->store_at ||
	    pread(memory_fd, words, sizeof(words), (off_t)r->rsp) != sizeof(words))
		return 0;
	words[1] = 0; /* where the result is stored */
	return memcmp(words, chain, sizeof(chain)) ? 0 : r->rsp + sizeof(words);
}

void return_look_through(int memory_fd, const struct return_gadgets *gadgets,
			 struct user_regs_struct *regs)
{
	uint64_t frame_at = frame_behind(memory_fd, gadgets, regs);
	ucontext_t context;

	if (frame_at &&
	    pread(memory_fd, &context, sizeof(context), (off_t)frame_at) == sizeof(context))
		read_registers(context.uc_mcontext.gregs, regs);
}

static uint64_t find_bytes(const uint8_t *code, size_t n, const void *wanted, size_t length,
			   uint64_t start)
{
	const uint8_t *found = memmem(code, n, wanted, length);

	return found ? start + (uint64_t)(found - code) : 0;
}

/*
 * Any store of rax, without or with an offset of one byte, for which the code has a pop too. The
 * byte after the opcode has the register: 4 and 5 have other meanings, and 0 is rax itself.
 */
static void find_store(const uint8_t *code, size_t n, uint64_t start, struct return_gadgets *out)
{
	static const uint8_t pop_result[] = { 0x58, 0xc3 };
	const uint8_t *end = code + n;

	out->pop_result_at = find_bytes(code, n, pop_result, sizeof(pop_result), start);
	for (const uint8_t *p = code; p + 5 <= end && out->pop_result_at; p++) {
		const uint8_t base = p[2] & 7;
		const uint8_t pop[] = { 0x58 | base, 0xc3 };
		const bool has_offset = p[2] >> 6 == 1;

		if (p[0] != 0x48 || p[1] != 0x89 || (p[2] & ~0x47) || base == 0 || base == 4 ||
		    base == 5 || p[3 + has_offset] != 0xc3)
			continue;
		out->pop_place_at = find_bytes(code, n, pop, sizeof(pop), start);
		if (!out->pop_place_at)
			continue;
		out->store_at = start + (uint64_t)(p - code);
		out->store_offset = has_offset ? (int8_t)p[3] : 0;
		return;
	}
}

/* The vdso has a system call for the calls that it cannot serve itself. */
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
		out->syscall_at =
			find_bytes(code, (size_t)n, syscall_return, sizeof(syscall_return), start);
		out->restore_at = find_bytes(code, (size_t)n, restore, sizeof(restore), start);
		find_store(code, (size_t)n, start, out);
	}
	free(code);
	if (!out->syscall_at || !out->restore_at)
		*out = (struct return_gadgets){ .syscall_at = find_vdso_syscall(pid, memory_fd) };
	return out->syscall_at != 0;
}
