/* SPDX-License-Identifier: MIT */
/*
 * probe_entry_x86_64.c - a thread comes from the code of a probe, by a jump and not by a signal.
 *
 * What a signal would have saved is saved here, in the same form: all registers in a ucontext_t,
 * the vector unit in an area of xsave. The first lies on the thread's own stack, below its red
 * zone. The area lies there too, and so do all frames of a callback, unless a guest has another
 * stack for it: a coroutine may have no more than 2 KiB. The frame is described to unwinders as
 * that of a signal handler, so a stack continues at the probe's address.
 *
 * Protection keys and the tiles of AMX are left as they are: no callback may use tiles.
 */
#include "base/general_regs.h"

#include <cpuid.h>
#include <stddef.h>
#include <ucontext.h>

#include "base/atomic.h"
#include "base/trap_path.h"
#include "code/probe/code_probe.h"
#include "trap/dispatch.h"
#include "trap/foreign.h"
#include "trap/probe_entry.h"
#include "trap/probe_gate.h"

/* From rsp of the entry's frame; all of them are checked below. */
/* All but rcx and rsp, from the context at rsp. */
#define LOAD_REGISTERS          \
	"mov 40(%rsp), %r8\n"   \
	"mov 48(%rsp), %r9\n"   \
	"mov 56(%rsp), %r10\n"  \
	"mov 64(%rsp), %r11\n"  \
	"mov 72(%rsp), %r12\n"  \
	"mov 80(%rsp), %r13\n"  \
	"mov 88(%rsp), %r14\n"  \
	"mov 96(%rsp), %r15\n"  \
	"mov 104(%rsp), %rdi\n" \
	"mov 112(%rsp), %rsi\n" \
	"mov 120(%rsp), %rbp\n" \
	"mov 128(%rsp), %rbx\n" \
	"mov 136(%rsp), %rdx\n" \
	"mov 144(%rsp), %rax\n"

#define CONTEXT_BYTES "976"
#define SAVED_MAGIC "0x54504c58"
#define RED_ZONE "128"

_Static_assert(sizeof(ucontext_t) <= 968, "behind it is room to leave by");
_Static_assert(offsetof(ucontext_t, uc_mcontext.gregs) == 40, "gregs");
_Static_assert(offsetof(ucontext_t, uc_mcontext.fpregs) == 224, "fpregs");
_Static_assert(ARCH_SAVED_MAGIC == 0x54504c58u, "as SAVED_MAGIC");
_Static_assert(sizeof(struct code_probe) == 32 && offsetof(struct code_probe, address) == 0 &&
		       offsetof(struct code_probe, resume) == 8,
	       "rows of the table");
_Static_assert(REG_R8 == 0 && REG_RDI == 8 && REG_RSP == 15 && REG_RIP == 16 && REG_EFL == 17,
	       "order of gregs");

enum vector_save {
	SAVE_BY_FXSAVE,
	SAVE_BY_XSAVE,
	SAVE_BY_XSAVEC
};

/* Hidden names for the assembler. */
uint32_t trap_probe_save __attribute__((visibility("hidden"))) = SAVE_BY_FXSAVE;
uint32_t trap_probe_mask[2] __attribute__((visibility("hidden")));
uint64_t trap_probe_bytes __attribute__((visibility("hidden"))) = 512;
const uint32_t trap_probe_mxcsr __attribute__((visibility("hidden"))) = 0x1f80;
uint64_t trap_probe_ask(uint64_t number, ucontext_t *context) __attribute__((visibility("hidden")));
uint64_t trap_probe_take(uint64_t number, ucontext_t *context)
	__attribute__((visibility("hidden")));
uint64_t trap_probe_leave_stack(ucontext_t *context) __attribute__((visibility("hidden")));
void trap_probe_come_back(ucontext_t *context, uint64_t top) __attribute__((visibility("hidden")));

struct trap_other_stack trap_other_stack;

#define XCR0_NOT_SAVED (1ull << 9 | 1ull << 17 | 1ull << 18) /* PKRU, AMX */
#define XSAVE_HEADER_END 576u
#define LEAF_XSAVE 13
#define HAS_XSAVEC (1u << 1)
#define IS_ALIGNED (1u << 1)

static uint64_t read_xcr0(void)
{
	uint32_t low;
	uint32_t high;

	__asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return (uint64_t)high << 32 | low;
}

/* Compacted: one component behind the other. Else each where it always is. */
static uint64_t area_bytes(uint64_t mask, int is_compact)
{
	uint64_t end = XSAVE_HEADER_END;
	uint32_t size;
	uint32_t offset;
	uint32_t flags;
	uint32_t unused;

	for (uint32_t i = 2; i < 63; i++) {
		if (!(mask >> i & 1))
			continue;
		__cpuid_count(LEAF_XSAVE, i, size, offset, flags, unused);
		if (is_compact)
			offset = (uint32_t)(flags & IS_ALIGNED ? (end + 63) & ~63ull : end);
		if (offset + size > end)
			end = offset + size;
	}
	return end;
}

void trap_probe_prepare(void)
{
	uint32_t a;
	uint32_t b;
	uint32_t c;
	uint32_t d;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
		return;
	uint64_t mask = read_xcr0() & ~XCR0_NOT_SAVED;

	__cpuid_count(LEAF_XSAVE, 1, a, b, c, d);
	int is_compact = (a & HAS_XSAVEC) != 0;

	trap_probe_mask[0] = (uint32_t)mask;
	trap_probe_mask[1] = (uint32_t)(mask >> 32);
	trap_probe_bytes = area_bytes(mask, is_compact);
	trap_probe_save = is_compact ? SAVE_BY_XSAVEC : SAVE_BY_XSAVE;
}

/* 1: a callback is to be run. */
TRAP_PATH_PART int asks(const struct code_probe *probe, ucontext_t *context)
{
	struct trapline_event *owner = atomic_get(&probe->owner);

	return owner && !probe_gate_of(owner) &&
	       trap_enter_probe(owner, probe->generation, context);
}

/*
 * Before the vector registers are saved. Where the thread continues; 0: trap_probe_take() knows.
 * The context has the probe's address as its pc, and no uc_link yet.
 */
TRAP_PATH uint64_t trap_probe_ask(uint64_t number, ucontext_t *context)
{
	const struct code_probe *probe = &code_probes[number];
	struct probe_gate *gate = probe_gate_of(atomic_get(&probe->owner));

	context->uc_link = (void *)gate;
	if (gate)
		return GENERAL_REGS_ONLY ? gate->ask(gate, context) : 0;
	return GENERAL_REGS_ONLY && !asks(probe, context) ? probe->resume : 0;
}

/* The top of another stack for what follows; 0 if the thread has none. */
TRAP_PATH uint64_t trap_probe_leave_stack(ucontext_t *context)
{
	uint64_t (*take)(ucontext_t *) = atomic_get(&trap_other_stack.take);

	return GENERAL_REGS_ONLY && take ? take(context) : 0;
}

/* The vector registers are the program's again. */
TRAP_PATH void trap_probe_come_back(ucontext_t *context, uint64_t top)
{
	void (*give)(ucontext_t *, uint64_t) = atomic_get(&trap_other_stack.give);

	if (GENERAL_REGS_ONLY && give)
		give(context, top);
}

/* Where the thread continues. The owner may be another one by now: what was asked is what takes. */
TRAP_PATH uint64_t trap_probe_take(uint64_t number, ucontext_t *context)
{
	const struct code_probe *probe = &code_probes[number];
	struct probe_gate *gate = (void *)context->uc_link;

	uint64_t to = probe->resume;

	context->uc_link = NULL;
	if (gate)
		to = gate->take(gate, context);
	else if (GENERAL_REGS_ONLY || asks(probe, context))
		trap_take_probe(context);
	if (!gate && (uint64_t)context->uc_mcontext.gregs[REG_RIP] != probe->address)
		to = (uint64_t)context->uc_mcontext.gregs[REG_RIP];
	foreign_send_kept();
	return to;
}

/*
 * In: the address in the stub, the probe's number, the red zone, the stack of the program. Out to
 * the stub, which continues to the instruction: that is a return from a call, as the processor
 * predicts, and the flags are set by cheap instructions. A thread that goes elsewhere, or has
 * others of the flags set, leaves by the ret at the end, which takes the address and the red zone
 * off at once. Nothing that is still needed lies where a signal may write.
 */
__asm__(".pushsection trap_path, \"ax\", @progbits\n"
	".globl trap_probe_entry\n"
	".hidden trap_probe_entry\n"
	".type trap_probe_entry, @function\n"
	"trap_probe_entry:\n"
	".cfi_startproc\n"
	".cfi_signal_frame\n"
	".cfi_def_cfa %rsp, 16 + " RED_ZONE "\n"
	".cfi_undefined %rip\n"
	"pushfq\n"
	"lea -" CONTEXT_BYTES "(%rsp), %rsp\n"
	"mov %r8, 40(%rsp)\n"
	"mov %r9, 48(%rsp)\n"
	"mov %r10, 56(%rsp)\n"
	"mov %r11, 64(%rsp)\n"
	"mov %r12, 72(%rsp)\n"
	"mov %r13, 80(%rsp)\n"
	"mov %r14, 88(%rsp)\n"
	"mov %r15, 96(%rsp)\n"
	"mov %rdi, 104(%rsp)\n"
	"mov %rsi, 112(%rsp)\n"
	"mov %rbp, 120(%rsp)\n"
	"mov %rbx, 128(%rsp)\n"
	"mov %rdx, 136(%rsp)\n"
	"mov %rax, 144(%rsp)\n"
	"mov %rcx, 152(%rsp)\n"
	"lea " CONTEXT_BYTES " + 24 + " RED_ZONE "(%rsp), %rax\n"
	"mov %rax, 160(%rsp)\n"
	"mov " CONTEXT_BYTES "(%rsp), %rax\n"
	"mov %rax, 176(%rsp)\n"
	/* Where it came from, for unwinders: from here on they believe the frame. */
	"mov " CONTEXT_BYTES " + 16(%rsp), %eax\n"
	"shl $5, %rax\n"
	"lea code_probes(%rip), %rcx\n"
	"mov (%rcx,%rax), %rax\n"
	"mov %rax, 168(%rsp)\n"
	"mov %rsp, %rbx\n"
	".cfi_def_cfa %rbx, " CONTEXT_BYTES " + 24 + " RED_ZONE "\n"
	".cfi_offset %r8, 40 - " CONTEXT_BYTES " - 24 - " RED_ZONE "\n"
	".cfi_offset %r9, 48 - " CONTEXT_BYTES " - 24 - " RED_ZONE "\n"
	".cfi_offset %r10, 56 - " CONTEXT_BYTES " - 24 - " RED_ZONE "\n"
	".cfi_offset %r11, 64 - " CONTEXT_BYTES " - 24 - " RED_ZONE "\n"
	".cfi_offset %r12, 72 - " CONTEXT_BYTES " - 24 - " RED_ZONE "\n"
	".cfi_offset %r13, 80 - " CONTEXT_BYTES " - 24 - " RED_ZONE "\n"
	".cfi_offset %r14, 88 - " CONTEXT_BYTES " - 24 - " RED_ZONE "\n"
	".cfi_offset %r15, 96 - " CONTEXT_BYTES " - 24 - " RED_ZONE "\n"
	".cfi_offset %rdi, 104 - " CONTEXT_BYTES " - 24 - " RED_ZONE "\n"
	".cfi_offset %rsi, 112 - " CONTEXT_BYTES " - 24 - " RED_ZONE "\n"
	".cfi_offset %rbp, 120 - " CONTEXT_BYTES " - 24 - " RED_ZONE "\n"
	".cfi_offset %rbx, 128 - " CONTEXT_BYTES " - 24 - " RED_ZONE "\n"
	".cfi_offset %rdx, 136 - " CONTEXT_BYTES " - 24 - " RED_ZONE "\n"
	".cfi_offset %rax, 144 - " CONTEXT_BYTES " - 24 - " RED_ZONE "\n"
	".cfi_offset %rcx, 152 - " CONTEXT_BYTES " - 24 - " RED_ZONE "\n"
	".cfi_offset %rip, 168 - " CONTEXT_BYTES " - 24 - " RED_ZONE "\n"
	"cld\n"
	"xor %eax, %eax\n"
	"mov %rax, (%rsp)\n"
	"mov %rax, 16(%rsp)\n"
	"mov %rax, 24(%rsp)\n"
	"mov %rax, 32(%rsp)\n"
	"mov %rax, 224(%rsp)\n"
	"and $-64, %rsp\n"
	"mov " CONTEXT_BYTES " + 16(%rbx), %edi\n"
	"mov %rbx, %rsi\n"
	"call trap_probe_ask\n"
	"mov %rax, %r12\n"
	"test %rax, %rax\n"
	"jnz 5f\n"
	/* No mask, and nothing of the kernel's behind gregs. */
	"lea 184(%rbx), %rdi\n"
	"mov $(" CONTEXT_BYTES " - 184) / 8, %ecx\n"
	"rep stosq\n"
	"mov %rbx, %rdi\n"
	"call trap_probe_leave_stack\n"
	"mov %rax, %r13\n"
	"test %rax, %rax\n"
	"jz 7f\n"
	"mov %rax, %rsp\n"
	"7: mov " CONTEXT_BYTES " + 16(%rbx), %edi\n"
	"sub trap_probe_bytes(%rip), %rsp\n"
	"and $-64, %rsp\n"
	"mov %rsp, 224(%rbx)\n"
	"mov trap_probe_save(%rip), %ecx\n"
	"mov trap_probe_mask(%rip), %eax\n"
	"mov 4 + trap_probe_mask(%rip), %edx\n"
	"cmp $1, %ecx\n"
	"jb 1f\n"
	"movq $0, 512(%rsp)\n"
	"movq $0, 520(%rsp)\n"
	"movq $0, 528(%rsp)\n"
	"movq $0, 536(%rsp)\n"
	"movq $0, 544(%rsp)\n"
	"movq $0, 552(%rsp)\n"
	"movq $0, 560(%rsp)\n"
	"movq $0, 568(%rsp)\n"
	"movl $" SAVED_MAGIC ", 464(%rsp)\n"
	"je 2f\n"
	"xsavec64 (%rsp)\n"
	"jmp 3f\n"
	"1: fxsave64 (%rsp)\n"
	"jmp 3f\n"
	"2: xsave64 (%rsp)\n"
	/* As a signal handler begins. */
	"3: fninit\n"
	"ldmxcsr trap_probe_mxcsr(%rip)\n"
	"mov %rbx, %rsi\n"
	"call trap_probe_take\n"
	"mov %rax, %r12\n"
	"mov trap_probe_mask(%rip), %eax\n"
	"mov 4 + trap_probe_mask(%rip), %edx\n"
	"cmpl $0, trap_probe_save(%rip)\n"
	"je 4f\n"
	"xrstor64 (%rsp)\n"
	"jmp 8f\n"
	"4: fxrstor64 (%rsp)\n"
	"8: mov %rbx, %rsp\n"
	"and $-64, %rsp\n"
	"mov %rbx, %rdi\n"
	"mov %r13, %rsi\n"
	"call trap_probe_come_back\n"
	"5: mov " CONTEXT_BYTES " + 16(%rbx), %ecx\n"
	"shl $5, %rcx\n"
	"lea code_probes(%rip), %rdx\n"
	"cmp 8(%rdx,%rcx), %r12\n"
	"jne 6f\n"
	"lea " CONTEXT_BYTES " + 24 + " RED_ZONE "(%rbx), %rax\n"
	"cmp 160(%rbx), %rax\n"
	"jne 6f\n"
	"mov 176(%rbx), %rax\n"
	"mov %eax, %ecx\n"
	"and $~0x8d5, %ecx\n"
	"cmp $0x202, %ecx\n"
	"jne 6f\n"
	".cfi_remember_state\n"
	"mov %rbx, %rsp\n"
	".cfi_def_cfa %rsp, " CONTEXT_BYTES " + 24 + " RED_ZONE "\n"
	/* Overflow by an addition, the other five by sahf. */
	"mov %eax, %ecx\n"
	"shr $11, %ecx\n"
	"and $1, %ecx\n"
	"mov %al, %ah\n"
	"mov %cl, %al\n"
	"add $0x7f, %al\n"
	"sahf\n" LOAD_REGISTERS "mov 152(%rsp), %rcx\n"
	"lea " CONTEXT_BYTES " + 8(%rsp), %rsp\n"
	/* The caller is the stub now. */
	".cfi_def_cfa %rsp, 8\n"
	".cfi_same_value %r8\n"
	".cfi_same_value %r9\n"
	".cfi_same_value %r10\n"
	".cfi_same_value %r11\n"
	".cfi_same_value %r12\n"
	".cfi_same_value %r13\n"
	".cfi_same_value %r14\n"
	".cfi_same_value %r15\n"
	".cfi_same_value %rdi\n"
	".cfi_same_value %rsi\n"
	".cfi_same_value %rbp\n"
	".cfi_same_value %rbx\n"
	".cfi_same_value %rdx\n"
	".cfi_same_value %rax\n"
	".cfi_same_value %rcx\n"
	".cfi_offset %rip, -8\n"
	"ret\n"
	".cfi_restore_state\n"
	/* rcx, flags and address go right below the program's red zone. */
	"6: mov %rbx, %rsp\n"
	".cfi_def_cfa %rsp, " CONTEXT_BYTES " + 24 + " RED_ZONE "\n"
	"mov 160(%rsp), %rdi\n"
	"lea -(24 + " RED_ZONE ")(%rdi), %rdi\n"
	"mov %r12, 16(%rdi)\n"
	"mov 176(%rsp), %rax\n"
	"mov %rax, 8(%rdi)\n"
	"mov 152(%rsp), %rax\n"
	"mov %rax, (%rdi)\n"
	"mov %rdi, %rcx\n" LOAD_REGISTERS "mov %rcx, %rsp\n"
	".cfi_def_cfa %rsp, 24 + " RED_ZONE "\n"
	".cfi_offset %rcx, -24 - " RED_ZONE "\n"
	".cfi_offset %rip, -8 - " RED_ZONE "\n"
	".cfi_restore %r8\n"
	".cfi_restore %r9\n"
	".cfi_restore %r10\n"
	".cfi_restore %r11\n"
	".cfi_restore %r12\n"
	".cfi_restore %r13\n"
	".cfi_restore %r14\n"
	".cfi_restore %r15\n"
	".cfi_restore %rdi\n"
	".cfi_restore %rsi\n"
	".cfi_restore %rbp\n"
	".cfi_restore %rbx\n"
	".cfi_restore %rdx\n"
	".cfi_restore %rax\n"
	"pop %rcx\n"
	".cfi_adjust_cfa_offset -8\n"
	".cfi_restore %rcx\n"
	"popfq\n"
	".cfi_adjust_cfa_offset -8\n"
	"ret $" RED_ZONE "\n"
	".cfi_endproc\n"
	".size trap_probe_entry, . - trap_probe_entry\n"
	".popsection\n");
