/* SPDX-License-Identifier: MIT */
/* copied_code.c - see copied_code.h. */
#include "report/code/copied_code.h"

#include "code/insn/insn.h"
#include "report/dwarf/instruction.h"

#include <string.h>

#if defined(__x86_64__)

#include <ucontext.h>

#define JUMP 0xe9
#define JUMP_BYTES 5u

uint64_t copied_code_origin(const uint8_t *code, size_t n, uint64_t pc)
{
	struct insn insn;
	int32_t distance;
	size_t at = 0;

	while (at + JUMP_BYTES <= n && code[at] != JUMP) {
		if (insn_decode(code + at, n - at, &insn))
			return 0;
		at += insn.length;
	}
	if (at + JUMP_BYTES > n)
		return 0;
	memcpy(&distance, code + at + 1, sizeof(distance));
	/* The copies are as long as the originals. */
	return pc + JUMP_BYTES + (uint64_t)(int64_t)distance;
}

#define DWARF_SP 7
#define DWARF_PC 16

bool copied_code_called(const uint8_t *stack, size_t length, uint64_t *regs)
{
	if (length < sizeof(uint64_t))
		return false;
	memcpy(&regs[DWARF_PC], stack, sizeof(uint64_t));
	regs[DWARF_SP] += sizeof(uint64_t);
	return true;
}

/* src/guest/kernel_action.c: movq $15, %rax; syscall. */
static bool is_signal_return(struct symbols *s, uint64_t address)
{
	static const uint8_t code[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	uint8_t bytes[sizeof(code)];

	return !code_bytes(s, address, bytes, sizeof(bytes)) && !memcmp(bytes, code, sizeof(code));
}

/* By DWARF number. */
static const int context_regs[] = {
	REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
	REG_R9,	 REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP,
};

static bool read_context(uint64_t returns_to, const uint8_t *stack, size_t length, uint64_t *regs)
{
	ucontext_t context;
	uint64_t word;
	const size_t needed = offsetof(ucontext_t, uc_mcontext) + sizeof(context.uc_mcontext);

	for (size_t at = 0; at + sizeof(word) + needed <= length; at += sizeof(word)) {
		memcpy(&word, stack + at, sizeof(word));
		if (word != returns_to)
			continue;
		memcpy(&context, stack + at + sizeof(word), needed);
		for (size_t i = 0; i < sizeof(context_regs) / sizeof(context_regs[0]); i++)
			regs[i] = (uint64_t)context.uc_mcontext.gregs[context_regs[i]];
		return true;
	}
	return false;
}

bool copied_code_interrupted(struct symbols *s, const uint64_t *frames, size_t count,
			     const uint8_t *stack, size_t length, uint64_t *regs)
{
	for (size_t i = 1; i < count; i++)
		if (is_signal_return(s, frames[i]))
			return read_context(frames[i], stack, length, regs);
	return false;
}

#else

bool copied_code_called(const uint8_t *stack, size_t length, uint64_t *regs)
{
	return false;
}

uint64_t copied_code_origin(const uint8_t *code, size_t n, uint64_t pc)
{
	return 0;
}

bool copied_code_interrupted(struct symbols *s, const uint64_t *frames, size_t count,
			     const uint8_t *stack, size_t length, uint64_t *regs)
{
	return false;
}

#endif
