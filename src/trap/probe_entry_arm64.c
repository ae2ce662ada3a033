/* SPDX-License-Identifier: MIT */
/*
 * probe_entry_arm64.c - a thread comes from the code of a probe, by a jump and not by a signal.
 *
 * What a signal would have saved is saved here, in the same form: a frame as the kernel makes it,
 * whose ucontext_t ends behind the record of the vector registers. Nothing below the stack pointer
 * is the program's, so the frame begins there. Registers of SVE lie below the frame, if there are
 * such; what a callback writes to the vector registers of the context counts there too. The frame
 * is described to unwinders as that of a signal handler.
 *
 * A thread that continues behind the probe gets its registers back by loads. One that is sent
 * elsewhere has no register for the way there: the kernel takes it, by rt_sigreturn(). It loses
 * what SVE has above the vector registers, which no call preserves.
 */
#include <signal.h>
#include <stddef.h>
#include <sys/auxv.h>
#include <ucontext.h>

#include "base/atomic.h"
#include "base/sys.h"
#include "base/trap_path.h"
#include "code/probe/code_probe.h"
#include "code/probe/probe_frame_arm64.h"
#include "trap/dispatch.h"
#include "trap/foreign.h"
#include "trap/probe_entry.h"
#include "trap/probe_gate.h"

/* In the frame, from its begin. */
#define AT_CONTEXT "128"
#define AT_FAULT "304"
#define AT_X0 "312"
#define AT_SP "560"
#define AT_PC "568"
#define AT_NZCV "576"
#define AT_FPSIMD "592"
#define AT_FPSR "600"
#define AT_VECTORS "608"
#define AT_END "1120"
#define FRAME "1136"
#define AT_X26 "520" /* further than a pair reaches */

#define CONTEXT_AT 128
#define IN_FRAME(member) (CONTEXT_AT + offsetof(ucontext_t, member))
_Static_assert(sizeof(siginfo_t) == CONTEXT_AT, "what the kernel has before it");
_Static_assert(IN_FRAME(uc_mcontext.fault_address) == 304, "fault_address");
_Static_assert(IN_FRAME(uc_mcontext.regs) == 312, "regs");
_Static_assert(IN_FRAME(uc_mcontext.regs) + 16 * 8 == PROBE_FRAME_X16, "of the stub");
_Static_assert(IN_FRAME(uc_mcontext.sp) == 560 && IN_FRAME(uc_mcontext.pc) == 568, "sp, pc");
_Static_assert(IN_FRAME(uc_mcontext.pstate) == 576, "pstate");
_Static_assert(IN_FRAME(uc_mcontext.__reserved) == 592, "records");
_Static_assert(sizeof(struct fpsimd_context) == 528 && 592 + 528 == 1120, "vector registers");
_Static_assert(1120 + 16 == PROBE_FRAME_BYTES, "the record that ends them");
_Static_assert(FPSIMD_MAGIC == 0x46508001, "magic");
_Static_assert(sizeof(struct code_probe) == 32 && offsetof(struct code_probe, address) == 0 &&
		       offsetof(struct code_probe, resume) == 8,
	       "rows of the table");

/* Hidden names for the assembler. */
uint32_t trap_probe_sve __attribute__((visibility("hidden")));
uint64_t trap_probe_take(uint64_t number, ucontext_t *context)
	__attribute__((visibility("hidden")));
void trap_probe_go_elsewhere(ucontext_t *context, uint64_t to)
	__attribute__((visibility("hidden")));

void trap_probe_prepare(void)
{
	trap_probe_sve = (getauxval(AT_HWCAP) & HWCAP_SVE) != 0;
}

/* Where the thread continues. */
TRAP_PATH uint64_t trap_probe_take(uint64_t number, ucontext_t *context)
{
	const struct code_probe *probe = &code_probes[number];
	void *owner = atomic_get(&probe->owner);
	struct probe_gate *gate = probe_gate_of(owner);
	uint64_t to = probe->resume;

	if (gate)
		to = gate->take(gate, context);
	else if (owner && trap_enter_probe(owner, probe->generation, context))
		trap_take_probe(context);
	if (!gate && context->uc_mcontext.pc != probe->address)
		to = context->uc_mcontext.pc;
	foreign_send_kept();
	return to;
}

/* What the kernel also takes from the frame, and is to stay. */
TRAP_PATH void trap_probe_go_elsewhere(ucontext_t *context, uint64_t to)
{
	context->uc_mcontext.pc = to;
	sys2(SYS_sigaltstack, NULL, &context->uc_stack);
	sys4(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &context->uc_sigmask, sizeof(uint64_t));
}

#define EACH_8(macro, n0, n1, n2, n3, n4, n5, n6, n7) \
	macro(n0) macro(n1) macro(n2) macro(n3) macro(n4) macro(n5) macro(n6) macro(n7)
#define EACH_16(macro)                        \
	EACH_8(macro, 0, 1, 2, 3, 4, 5, 6, 7) \
	EACH_8(macro, 8, 9, 10, 11, 12, 13, 14, 15)
#define EACH_32(macro)                                \
	EACH_16(macro)                                \
	EACH_8(macro, 16, 17, 18, 19, 20, 21, 22, 23) \
	EACH_8(macro, 24, 25, 26, 27, 28, 29, 30, 31)

#define OFFSET_OF_X(n) ".cfi_offset " #n ", " AT_X0 " + 8 * " #n " - " FRAME "\n"
#define STORE_Z(n) "str z" #n ", [x2, #" #n ", mul vl]\n"
#define LOAD_Z(n) "ldr z" #n ", [x2, #" #n ", mul vl]\n"
#define STORE_P(n) "str p" #n ", [x3, #" #n ", mul vl]\n"
#define LOAD_P(n) "ldr p" #n ", [x3, #" #n ", mul vl]\n"
#define STORE_Q(n) "str q" #n ", [x17, #16 * " #n "]\n"
#define LOAD_Q(n) "ldr q" #n ", [x17, #16 * " #n "]\n"
/* The tool would join what the macros between the lines divide. */
/* clang-format off */
#define PAIRS(op, base)                        \
	op " x0, x1, [" base ", #" AT_X0 "]\n" \
	op " x2, x3, [" base ", #328]\n"       \
	op " x4, x5, [" base ", #344]\n"       \
	op " x6, x7, [" base ", #360]\n"       \
	op " x8, x9, [" base ", #376]\n"       \
	op " x10, x11, [" base ", #392]\n"     \
	op " x12, x13, [" base ", #408]\n"     \
	op " x14, x15, [" base ", #424]\n"     \
	op " x18, x19, [" base ", #456]\n"     \
	op " x20, x21, [" base ", #472]\n"     \
	op " x22, x23, [" base ", #488]\n"     \
	op " x24, x25, [" base ", #504]\n"
#define FAR_PAIRS(op, one, base)          \
	op " x26, x27, [" base "]\n"      \
	op " x28, x29, [" base ", #16]\n" \
	one " x30, [" base ", #32]\n"

/*
 * In: the frame at sp with x16 and x17 in it, the number of the probe in x16. The row of the
 * probe is found by it: x19 the frame, w20 the number, x21 where the thread continues, x22 the
 * registers of SVE or 0. Out to the stub, which loads x16 and x17 and frees the frame.
 */
__asm__(".pushsection trap_path, \"ax\", @progbits\n"
	".arch_extension sve\n"
	".globl trap_probe_entry\n"
	".hidden trap_probe_entry\n"
	".type trap_probe_entry, @function\n"
	".balign 4\n"
	"trap_probe_entry:\n"
	".cfi_startproc\n"
	".cfi_signal_frame\n"
	".cfi_return_column 96\n"
	".cfi_def_cfa sp, " FRAME "\n"
	".cfi_undefined 96\n"
	"hint #38\n"
	/* bti jc */
	PAIRS("stp", "sp")
	"add x17, sp, #" AT_X26 "\n"
	FAR_PAIRS("stp", "str", "x17")
	"add x0, sp, #" FRAME "\n"
	"str x0, [sp, #" AT_SP "]\n"
	"mrs x0, nzcv\n"
	"str x0, [sp, #" AT_NZCV "]\n"
	/* Where it came from, for unwinders: from here on they believe the frame. */
	"adrp x0, code_probes\n"
	"add x0, x0, :lo12:code_probes\n"
	"add x0, x0, x16, lsl #5\n"
	"ldr x0, [x0]\n"
	"str x0, [sp, #" AT_PC "]\n"
	"mov x19, sp\n"
	".cfi_def_cfa x19, " FRAME "\n"
	EACH_16(OFFSET_OF_X)
	EACH_8(OFFSET_OF_X, 16, 17, 18, 19, 20, 21, 22, 23)
	EACH_8(OFFSET_OF_X, 24, 25, 26, 27, 28, 29, 30, 30)
	".cfi_offset 96, " AT_PC " - " FRAME "\n"
	"mov w20, w16\n"
	/* Flags, link, stack, mask, fault address: nothing. */
	"stp xzr, xzr, [sp, #" AT_CONTEXT "]\n"
	"stp xzr, xzr, [sp, #144]\n"
	"stp xzr, xzr, [sp, #160]\n"
	"str xzr, [sp, #" AT_FAULT "]\n"
	"add x17, sp, #" AT_END "\n"
	"stp xzr, xzr, [x17]\n"
	"mov w0, #0x8001\n"
	"movk w0, #0x4650, lsl #16\n"
	"mov w1, #528\n"
	"add x17, sp, #" AT_FPSIMD "\n"
	"stp w0, w1, [x17]\n"
	"mrs x0, fpsr\n"
	"mrs x1, fpcr\n"
	"stp w0, w1, [x17, #8]\n"
	"add x17, sp, #" AT_VECTORS "\n"
	EACH_32(STORE_Q)
	"mov x22, #0\n"
	"adrp x0, trap_probe_sve\n"
	"ldr w0, [x0, #:lo12:trap_probe_sve]\n"
	"cbz w0, 1f\n"
	/* 32 of VL, and 17 of VL / 8: below 35 of VL, which is a multiple of 16. */
	"rdvl x1, #31\n"
	"rdvl x2, #4\n"
	"add x1, x1, x2\n"
	"mov x2, sp\n"
	"sub x2, x2, x1\n"
	"mov sp, x2\n"
	"mov x22, x2\n"
	EACH_32(STORE_Z)
	"rdvl x3, #31\n"
	"add x3, x3, x2\n"
	"rdvl x1, #1\n"
	"add x3, x3, x1\n"
	EACH_16(STORE_P)
	"rdffr p0.b\n"
	"str p0, [x3, #16, mul vl]\n"
	"1: mov w0, w20\n"
	"add x1, x19, #" AT_CONTEXT "\n"
	"bl trap_probe_take\n"
	"mov x21, x0\n"
	"add x17, x19, #" AT_VECTORS "\n"
	"cbz x22, 3f\n"
	"mov x2, x22\n"
	"rdvl x1, #1\n"
	"mov w0, #32\n"
	"2: ldr q0, [x17], #16\n"
	"str q0, [x2]\n"
	"add x2, x2, x1\n"
	"subs w0, w0, #1\n"
	"b.ne 2b\n"
	"mov x3, x2\n"
	"mov x2, x22\n"
	"ldr p0, [x3, #16, mul vl]\n"
	"wrffr p0.b\n"
	EACH_16(LOAD_P)
	EACH_32(LOAD_Z)
	"b 4f\n"
	"3:\n"
	EACH_32(LOAD_Q)
	"4: add x17, x19, #" AT_FPSR "\n"
	"ldp w0, w1, [x17]\n"
	"msr fpsr, x0\n"
	"msr fpcr, x1\n"
	"adrp x0, code_probes\n"
	"add x0, x0, :lo12:code_probes\n"
	"add x0, x0, x20, lsl #5\n"
	"ldr x0, [x0, #8]\n"
	"cmp x0, x21\n"
	"b.ne 5f\n"
	"ldr x0, [x19, #" AT_SP "]\n"
	"add x1, x19, #" FRAME "\n"
	"cmp x0, x1\n"
	"b.ne 5f\n"
	".cfi_remember_state\n"
	"mov sp, x19\n"
	".cfi_def_cfa sp, " FRAME "\n"
	"ldr x0, [sp, #" AT_NZCV "]\n"
	"msr nzcv, x0\n"
	"sub x17, x21, #8\n" /* PROBE_BACK_BYTES */
	"add x16, sp, #" AT_X26 "\n"
	FAR_PAIRS("ldp", "ldr", "x16")
	PAIRS("ldp", "sp")
	"br x17\n"
	".cfi_restore_state\n"
	"5: mov sp, x19\n"
	"add x0, x19, #" AT_CONTEXT "\n"
	"mov x1, x21\n"
	"bl trap_probe_go_elsewhere\n"
	"mov sp, x19\n"
	"mov x8, #139\n" /* rt_sigreturn() */
	"svc #0\n"
	"brk #0x5471\n"
	".cfi_endproc\n"
	".size trap_probe_entry, . - trap_probe_entry\n"
	".arch_extension nosve\n"
	".popsection\n");
/* clang-format on */
