/* SPDX-License-Identifier: MIT */
/* arch_x86_64.c - see arch.h. */
#include "base/general_regs.h"

#include <errno.h>
#include <string.h>

#include "base/text_byte.h"
#include "base/trap_path.h"
#include "record/layout.h"
#include "trap/arch.h"
#include "trap/probe_entry.h"

#define TRAP_BRKPT_CODE 1 /* of <asm-generic/siginfo.h>, for INT1 */
#define INT1 0xf1
#define FP_BYTES 512u
#define FP_SOFTWARE 464u /* struct _fpx_sw_bytes */
#define FP_MAGIC 0x46505853u
#define FP_VECTORS 160u
#define XSTATE_SSE 2u

TRAP_PATH uint64_t arch_pc(const ucontext_t *context)
{
	return (uint64_t)context->uc_mcontext.gregs[REG_RIP];
}

TRAP_PATH uint64_t arch_sp(const ucontext_t *context)
{
	return (uint64_t)context->uc_mcontext.gregs[REG_RSP];
}

TRAP_PATH int arch_register(const ucontext_t *context, unsigned int number, uint64_t *out)
{
	static const uint8_t dwarf_to_greg[] = {
		REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
		REG_R9,	 REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP,
	};

	if (number >= sizeof(dwarf_to_greg))
		return -EINVAL;
	*out = (uint64_t)context->uc_mcontext.gregs[dwarf_to_greg[number]];
	return 0;
}

TRAP_PATH uint64_t arch_vector_bytes(const ucontext_t *context)
{
	const char *area = (const char *)context->uc_mcontext.fpregs;
	uint32_t software[2];

	if (!area)
		return 0;
	memcpy(software, area + FP_SOFTWARE, sizeof(software));
	return software[0] == FP_MAGIC ? software[1] : FP_BYTES;
}

/* An area of Trapline's own, where xsavec leaves out registers that have their first values. */
static int is_in_use(const char *area)
{
	uint32_t magic;
	uint64_t in_use;

	memcpy(&magic, area + FP_SOFTWARE, sizeof(magic));
	memcpy(&in_use, area + FP_BYTES, magic == ARCH_SAVED_MAGIC ? sizeof(in_use) : 0);
	return magic != ARCH_SAVED_MAGIC || in_use & XSTATE_SSE;
}

TRAP_PATH int arch_vector(const ucontext_t *context, unsigned int number, uint64_t out[2])
{
	const char *area = (const char *)context->uc_mcontext.fpregs;

	if (number >= RECORD_VECTORS)
		return -EINVAL;
	if (!area)
		return -ENODATA;
	out[0] = out[1] = 0;
	if (is_in_use(area))
		memcpy(out, area + FP_VECTORS + (size_t)number * RECORD_VECTOR_BYTES,
		       RECORD_VECTOR_BYTES);
	return 0;
}

TRAP_PATH int arch_vector_word(const ucontext_t *context, unsigned int number, uint64_t *out)
{
	uint64_t words[2];

	if (!context->uc_mcontext.fpregs && (!GENERAL_REGS_ONLY || number >= RECORD_VECTORS))
		return -ENODATA;
	if (!context->uc_mcontext.fpregs) {
		*out = trap_live_vector(number);
		return 0;
	}
	const int err = arch_vector(context, number, words);
	if (!err)
		*out = words[0];
	return err;
}

TRAP_PATH int arch_is_trap_code(int32_t code)
{
	return code == SI_KERNEL;
}

/* The number of the last exception would state nothing: it stays until the next one. */
TRAP_PATH int arch_is_at_breakpoint(const ucontext_t *context)
{
	return text_byte(arch_pc(context) - 1) == 0xcc;
}

/*
 * exc_debug_user(): DR6 without a bit is INT1, and si_addr is the pc. A signal that was sent has
 * another one.
 */
TRAP_PATH int arch_has_lost_cause(const siginfo_t *info, const ucontext_t *context)
{
	const uint64_t pc = arch_pc(context);

	return info->si_code == TRAP_BRKPT_CODE && (uintptr_t)info->si_addr == pc &&
	       text_byte(pc - 1) != INT1;
}

/* Intel SDM 17.2.4: data breakpoints are traps, instruction breakpoints are faults. */
TRAP_PATH int arch_done(uint32_t access)
{
	return access != TRAPLINE_EXECUTE;
}

/* For code the kernel sets EFLAGS.RF in the frame, so that the instruction runs once. */
TRAP_PATH int arch_steps_past(uint32_t access)
{
	return 1;
}
