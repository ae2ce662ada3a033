/* SPDX-License-Identifier: MIT */
/*
 * past_arm64.c - see past.h.
 *
 * That the kernel's step is spent on the handler: user_fastforward_single_step() in setup_return()
 * of arch/arm64/kernel/signal.c, and reinstall_suspended_bps() in hw_breakpoint.c. Events with
 * sigtrap have the default overflow handler, so the kernel does step; kernel/watch in an emulated
 * machine shows both.
 */
#include "base/trap_path.h"
#include "trap/past.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/sys.h"
#include "code/insn/insn.h"
#include "code/insn/insn_arm64.h"
#include "code/step/step.h"
#include "code/step/step_form.h"
#include "code/step/step_plan.h"
#include "code/step/step_take.h"
#include "trap/past_copy_arm64.h"
#include "trap/room.h"

#define FLAGS (15ull << 28)
#define BRANCH_TYPE (3ull << 10)
#define TRAP_PERF_CODE 6
#define VECTORS 0x46508001u  /* FPSIMD_MAGIC */
#define SCALABLE 0x53564501u /* SVE_MAGIC */
#define SCALABLE_AT 16u	     /* head, length, flags; without registers, it ends there */
#define SCALABLE_FLAGS_AT 10
#define STREAMING 1u
#define ELSEWHERE 0x45585401u /* EXTRA_MAGIC */
#define VECTORS_AT 16	      /* head, fpsr, fpcr */

_Static_assert(offsetof(mcontext_t, sp) == offsetof(mcontext_t, regs) + PAST_SP * 8, "words");
_Static_assert(offsetof(mcontext_t, pc) == offsetof(mcontext_t, regs) + PAST_SPARE * 8, "words");
_Static_assert(offsetof(mcontext_t, pstate) == offsetof(mcontext_t, regs) + PAST_PSTATE * 8,
	       "words");

/*
 * Saves what calls preserve, and puts the vector registers there and back: copies clobber any. The
 * scalable ones are the same registers, whose upper parts a copy clears.
 */
void past_call(uint64_t *words, const void *copy, void *fixed, void *scalable)
	__attribute__((visibility("hidden")));
__asm__(".pushsection trap_path, \"ax\", %progbits\n"
	"	.hidden past_call\n"
	"	.globl past_call\n"
	"	.type past_call, %function\n"
	"	.arch_extension sve\n"
	"	.p2align 2\n"
	"past_call:\n"
	"	.cfi_startproc\n"
	"	stp x29, x30, [sp, #-128]!\n"
	"	.cfi_def_cfa_offset 128\n"
	"	.cfi_offset 29, -128\n"
	"	.cfi_offset 30, -120\n"
	"	stp x19, x20, [sp, #16]\n"
	"	stp x21, x22, [sp, #32]\n"
	"	stp x23, x24, [sp, #48]\n"
	"	stp x25, x26, [sp, #64]\n"
	"	stp x27, x28, [sp, #80]\n"
	"	stp x2, x18, [sp, #96]\n"
	"	str x3, [sp, #112]\n"
	"	cbz x2, 1f\n"
	"	ldp q0, q1, [x2]\n"
	"	ldp q2, q3, [x2, #32]\n"
	"	ldp q4, q5, [x2, #64]\n"
	"	ldp q6, q7, [x2, #96]\n"
	"	ldp q8, q9, [x2, #128]\n"
	"	ldp q10, q11, [x2, #160]\n"
	"	ldp q12, q13, [x2, #192]\n"
	"	ldp q14, q15, [x2, #224]\n"
	"	ldp q16, q17, [x2, #256]\n"
	"	ldp q18, q19, [x2, #288]\n"
	"	ldp q20, q21, [x2, #320]\n"
	"	ldp q22, q23, [x2, #352]\n"
	"	ldp q24, q25, [x2, #384]\n"
	"	ldp q26, q27, [x2, #416]\n"
	"	ldp q28, q29, [x2, #448]\n"
	"	ldp q30, q31, [x2, #480]\n"
	"	cbz x3, 1f\n"
	"	ldr z0, [x3, #0, mul vl]\n"
	"	ldr z1, [x3, #1, mul vl]\n"
	"	ldr z2, [x3, #2, mul vl]\n"
	"	ldr z3, [x3, #3, mul vl]\n"
	"	ldr z4, [x3, #4, mul vl]\n"
	"	ldr z5, [x3, #5, mul vl]\n"
	"	ldr z6, [x3, #6, mul vl]\n"
	"	ldr z7, [x3, #7, mul vl]\n"
	"	ldr z8, [x3, #8, mul vl]\n"
	"	ldr z9, [x3, #9, mul vl]\n"
	"	ldr z10, [x3, #10, mul vl]\n"
	"	ldr z11, [x3, #11, mul vl]\n"
	"	ldr z12, [x3, #12, mul vl]\n"
	"	ldr z13, [x3, #13, mul vl]\n"
	"	ldr z14, [x3, #14, mul vl]\n"
	"	ldr z15, [x3, #15, mul vl]\n"
	"	ldr z16, [x3, #16, mul vl]\n"
	"	ldr z17, [x3, #17, mul vl]\n"
	"	ldr z18, [x3, #18, mul vl]\n"
	"	ldr z19, [x3, #19, mul vl]\n"
	"	ldr z20, [x3, #20, mul vl]\n"
	"	ldr z21, [x3, #21, mul vl]\n"
	"	ldr z22, [x3, #22, mul vl]\n"
	"	ldr z23, [x3, #23, mul vl]\n"
	"	ldr z24, [x3, #24, mul vl]\n"
	"	ldr z25, [x3, #25, mul vl]\n"
	"	ldr z26, [x3, #26, mul vl]\n"
	"	ldr z27, [x3, #27, mul vl]\n"
	"	ldr z28, [x3, #28, mul vl]\n"
	"	ldr z29, [x3, #29, mul vl]\n"
	"	ldr z30, [x3, #30, mul vl]\n"
	"	ldr z31, [x3, #31, mul vl]\n"
	"1:	isb\n" /* another thread may have written the copy */
	"	blr x1\n"
	"	ldp x2, x18, [sp, #96]\n"
	"	ldr x3, [sp, #112]\n"
	"	cbz x2, 2f\n"
	"	stp q0, q1, [x2]\n"
	"	stp q2, q3, [x2, #32]\n"
	"	stp q4, q5, [x2, #64]\n"
	"	stp q6, q7, [x2, #96]\n"
	"	stp q8, q9, [x2, #128]\n"
	"	stp q10, q11, [x2, #160]\n"
	"	stp q12, q13, [x2, #192]\n"
	"	stp q14, q15, [x2, #224]\n"
	"	stp q16, q17, [x2, #256]\n"
	"	stp q18, q19, [x2, #288]\n"
	"	stp q20, q21, [x2, #320]\n"
	"	stp q22, q23, [x2, #352]\n"
	"	stp q24, q25, [x2, #384]\n"
	"	stp q26, q27, [x2, #416]\n"
	"	stp q28, q29, [x2, #448]\n"
	"	stp q30, q31, [x2, #480]\n"
	"	cbz x3, 2f\n"
	"	str z0, [x3, #0, mul vl]\n"
	"	str z1, [x3, #1, mul vl]\n"
	"	str z2, [x3, #2, mul vl]\n"
	"	str z3, [x3, #3, mul vl]\n"
	"	str z4, [x3, #4, mul vl]\n"
	"	str z5, [x3, #5, mul vl]\n"
	"	str z6, [x3, #6, mul vl]\n"
	"	str z7, [x3, #7, mul vl]\n"
	"	str z8, [x3, #8, mul vl]\n"
	"	str z9, [x3, #9, mul vl]\n"
	"	str z10, [x3, #10, mul vl]\n"
	"	str z11, [x3, #11, mul vl]\n"
	"	str z12, [x3, #12, mul vl]\n"
	"	str z13, [x3, #13, mul vl]\n"
	"	str z14, [x3, #14, mul vl]\n"
	"	str z15, [x3, #15, mul vl]\n"
	"	str z16, [x3, #16, mul vl]\n"
	"	str z17, [x3, #17, mul vl]\n"
	"	str z18, [x3, #18, mul vl]\n"
	"	str z19, [x3, #19, mul vl]\n"
	"	str z20, [x3, #20, mul vl]\n"
	"	str z21, [x3, #21, mul vl]\n"
	"	str z22, [x3, #22, mul vl]\n"
	"	str z23, [x3, #23, mul vl]\n"
	"	str z24, [x3, #24, mul vl]\n"
	"	str z25, [x3, #25, mul vl]\n"
	"	str z26, [x3, #26, mul vl]\n"
	"	str z27, [x3, #27, mul vl]\n"
	"	str z28, [x3, #28, mul vl]\n"
	"	str z29, [x3, #29, mul vl]\n"
	"	str z30, [x3, #30, mul vl]\n"
	"	str z31, [x3, #31, mul vl]\n"
	"2:	ldp x19, x20, [sp, #16]\n"
	"	ldp x21, x22, [sp, #32]\n"
	"	ldp x23, x24, [sp, #48]\n"
	"	ldp x25, x26, [sp, #64]\n"
	"	ldp x27, x28, [sp, #80]\n"
	"	ldp x29, x30, [sp], #128\n"
	"	.cfi_restore 29\n"
	"	.cfi_restore 30\n"
	"	.cfi_def_cfa_offset 0\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"	.size past_call, . - past_call\n"
	"	.popsection\n");

int past_prepare(void)
{
	step_has_shadow_stack(); /* asked once, not in the handler */
	return past_copies_map();
}

/* 1: what changes the pc, or nothing but the pc, is done; 0: it is for a copy; or -EOPNOTSUPP. */
TRAP_PATH static int decode(uint64_t pc, uint32_t word, struct insn *insn, struct step *step)
{
	const uint16_t refused = INSN_EXCLUSIVE | INSN_PRIVILEGED | INSN_NOT_RELOCATABLE;
	const uint32_t group = arm64_bits(word, 25, 4);
	const char *why;

	*step = (struct step){ .kind = STEP_NONE };
	/* Scalable vectors: a frame may not have them, and a system call clears them. */
	if (group == 0 || group == 2 || insn_decode(&word, sizeof(word), insn) ||
	    step_form(pc, (const void *)&word, sizeof(word), step, &why) < 0)
		return -EOPNOTSUPP;
	if (step->kind != STEP_NONE && step->kind != STEP_AGAIN)
		return 1;
	if (step->kind == STEP_AGAIN || insn->kind == INSN_SYSCALL || insn->kind == INSN_STRING ||
	    insn->flags & refused ||
	    (insn->memory_count && insn->memory[0].flags & INSN_MEM_NOT_COMPUTABLE))
		return -EOPNOTSUPP;
	return 0;
}

int past_can(uint64_t address, const char **why)
{
	struct insn insn;
	struct step step;
	uint32_t word;

	*why = "no thread can be taken past that instruction: arm64 traps again after a signal; "
	       "use records";
	if (sys_read_memory(sys_getpid(), address, &word, sizeof(word)) != sizeof(word))
		return -EFAULT;
	if (decode(address, word, &insn, &step) < 0 || step_is_in_exclusive(address))
		return -EOPNOTSUPP;
	if (step.kind == STEP_NONE && !past_copy(word, &insn, 1) &&
	    (insn.memory_count || !(insn.flags & INSN_PC_RELATIVE)))
		return -EOPNOTSUPP;
	return 0;
}

/* Where the frame of a signal has the vector registers. */
struct vectors {
	void *fixed;
	void *scalable; /* NULL: their upper parts are 0 */
	int is_streaming;
};

/* Both may be outside of the frame's own room; the fixed ones are always in it. */
TRAP_PATH static void find_vectors(uint8_t *at, uint64_t bytes, struct vectors *out)
{
	const uint8_t *end = at + bytes;

	while (at + 16 <= end) {
		uint32_t head[2]; /* struct _aarch64_ctx: magic, size */
		uint16_t flags;

		memcpy(head, at, sizeof(head));
		if (!head[0] || head[1] < sizeof(head))
			return;
		memcpy(&flags, at + SCALABLE_FLAGS_AT, sizeof(flags));
		if (head[0] == VECTORS)
			out->fixed = at + VECTORS_AT;
		if (head[0] == SCALABLE && head[1] > SCALABLE_AT)
			out->scalable = at + SCALABLE_AT;
		if (head[0] == SCALABLE && flags & STREAMING)
			out->is_streaming = 1;
		at += head[1];
	}
}

TRAP_PATH static int vectors_of(ucontext_t *context, struct vectors *out)
{
	uint8_t *const room = (uint8_t *)context->uc_mcontext.__reserved;
	const uint8_t *const end = room + sizeof(context->uc_mcontext.__reserved);

	find_vectors(room, sizeof(context->uc_mcontext.__reserved), out);
	for (uint8_t *at = room; at + 24 <= end;) {
		uint32_t head[2], bytes;
		uint64_t where;

		memcpy(head, at, sizeof(head));
		if (!head[0] || head[1] < sizeof(head))
			break;
		memcpy(&where, at + 8, sizeof(where));
		memcpy(&bytes, at + 16, sizeof(bytes));
		if (head[0] == ELSEWHERE)
			find_vectors((uint8_t *)(uintptr_t)where, bytes, out);
		at += head[1];
	}
	return out->fixed && !out->is_streaming;
}

/* The hit of the copy. A SIGTRAP that was sent to the thread, and came first, is sent again. */
TRAP_PATH static void take_pending(struct past *out)
{
	const uint64_t trap = 1ull << (SIGTRAP - 1);
	const struct timespec none = { 0, 0 };
	siginfo_t info;

	if (sys4(SYS_rt_sigtimedwait, &trap, &info, &none, sizeof(trap)) != SIGTRAP)
		return;
	if (info.si_code == TRAP_PERF_CODE) {
		out->is_hit = 1;
		memcpy(&out->data, (const uint8_t *)&info + 24, sizeof(out->data));
	} else {
		sys4(SYS_rt_tgsigqueueinfo, sys_getpid(), sys_gettid(), SIGTRAP, &info);
	}
}

TRAP_PATH static void run(ucontext_t *context, const void *copy, const struct vectors *vectors,
			  struct past *out)
{
	const uint64_t faults = 1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1) |
				1ull << (SIGILL - 1) | 1ull << (SIGFPE - 1) | 1ull << (SIGSYS - 1);
	const uint64_t others = ~faults;
	uint64_t before = 0;

	sys4(SYS_rt_sigprocmask, SIG_BLOCK, &others, &before, sizeof(before));
	past_call((uint64_t *)context->uc_mcontext.regs, copy, vectors->fixed, vectors->scalable);
	take_pending(out);
	sys4(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
}

TRAP_PATH static uint64_t operand_of(const ucontext_t *context, const struct insn *insn)
{
	struct insn_regs regs = { .known = INSN_KNOWS_ARM64 };
	uint64_t address;

	if (!insn->memory_count)
		return 0;
	memcpy(regs.r, context->uc_mcontext.regs, sizeof(regs.r));
	if (insn_address(insn, 0, &regs, &address))
		return 0;
	return address << 8 >> 8; /* without its tag */
}

TRAP_PATH static int run_copy(ucontext_t *context, uint32_t word, const struct insn *insn,
			      int is_breakpoint, struct past *out)
{
	const uint64_t pc = context->uc_mcontext.pc;
	const void *copy = past_copy(word, insn, is_breakpoint);
	struct vectors vectors = { 0 };

	if (!copy || (insn->flags & INSN_VECTOR && !vectors_of(context, &vectors)))
		return -EOPNOTSUPP;
	out->access = operand_of(context, insn);
	context->uc_mcontext.pc = pc + (uint64_t)insn->target;
	run(context, copy, &vectors, out);
	context->uc_mcontext.pstate = (context->uc_mcontext.pstate & ~FLAGS) |
				      (context->uc_mcontext.pc & FLAGS);
	context->uc_mcontext.pc = pc + insn->length;
	return 0;
}

/* adr and adrp. */
TRAP_PATH static void take_address(ucontext_t *context, uint32_t word, const struct insn *insn)
{
	const uint64_t pc = context->uc_mcontext.pc;
	const uint64_t from = word >> 31 ? pc & ~4095ull : pc;

	if (!(insn->flags & INSN_HINT) && (word & 31) != 31)
		context->uc_mcontext.regs[word & 31] = from + (uint64_t)insn->target;
	context->uc_mcontext.pc = pc + insn->length;
}

TRAP_PATH int past_instruction(ucontext_t *context, int is_breakpoint, struct past *out)
{
	const uint64_t pc = context->uc_mcontext.pc;
	struct insn insn;
	struct step step;
	uint32_t word;

	*out = (struct past){ 0 };
	if (sys_read_memory(trap_room.pid, pc, &word, sizeof(word)) != sizeof(word))
		return -EOPNOTSUPP;
	int err = decode(pc, word, &insn, &step);
	if (err == 1)
		step_take(&step, pc, context);
	else if (!err && insn.flags & INSN_PC_RELATIVE && !insn.memory_count)
		take_address(context, word, &insn);
	else if (!err)
		err = run_copy(context, word, &insn, is_breakpoint, out);
	if (err < 0)
		return err;
	context->uc_mcontext.pstate &= ~BRANCH_TYPE;
	return 0;
}
