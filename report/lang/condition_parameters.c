// SPDX-License-Identifier: MIT
/* condition_parameters.c - see condition_parameters.h. */
#include "report/lang/condition_parameters.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* In the half of the addresses that is the kernel's, a megabyte for each. */
#define BASE UINT64_C(0xffff800000000000)
#define ROOM_BITS 20

#if defined(__x86_64__)
static const char *const registers[] = { "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp",
					 "r8",	"r9",  "r10", "r11", "r12", "r13", "r14", "r15" };
#else
static const char *const registers[] = { "x0", "x1", "x2",  "x3",  "x4",  "x5",	 "x6",	"x7",
					 "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15" };
#endif
#define REGISTERS (sizeof(registers) / sizeof(registers[0]))

bool is_parameter_address(uint64_t base)
{
	return base >= BASE && base < BASE + ((uint64_t)PARAMETERS_MAX << ROOM_BITS);
}

static const struct signature_value *parameter_of(const struct signature *signature, uint64_t base,
						  uint64_t *offset)
{
	uint64_t index = (base - BASE) >> ROOM_BITS;

	if (!signature || !is_parameter_address(base) || index >= signature->count)
		return NULL;
	*offset = base & ((UINT64_C(1) << ROOM_BITS) - 1);
	return &signature->parameter[index];
}

bool parameter_has_name(const struct signature *signature, const char *name)
{
	for (size_t i = 0; signature && i < signature->count && i < PARAMETERS_MAX; i++)
		if (signature->parameter[i].name && !strcmp(signature->parameter[i].name, name))
			return true;
	return false;
}

size_t parameters_as_locals(const struct signature *signature,
			    struct expression_local locals[PARAMETERS_MAX])
{
	size_t n = 0;

	for (size_t i = 0; signature && i < signature->count && i < PARAMETERS_MAX; i++) {
		const struct signature_value *p = &signature->parameter[i];
		if (p->name && p->type)
			locals[n++] = (struct expression_local){ .name = p->name,
								 .type = p->type,
								 .base = BASE + ((uint64_t)i
										 << ROOM_BITS) };
	}
	return n;
}

static const char *register_name(const struct signature_value *p, uint64_t offset)
{
	uint64_t which = offset / 8;

	return which < p->regs && p->reg[which] < REGISTERS ? registers[p->reg[which]] : NULL;
}

bool parameter_base(const struct signature *signature, uint64_t base, char text[PARAMETER_TEXT])
{
	uint64_t offset = 0;
	const struct signature_value *p = parameter_of(signature, base, &offset);
	const char *reg = p ? register_name(p, p->where == SIGNATURE_REGISTERS ? offset : 0) : NULL;

	if (p && p->where == SIGNATURE_STACK)
		snprintf(text, PARAMETER_TEXT, "sp+0x%" PRIx64, p->stack + offset);
	else if (p && p->where == SIGNATURE_MEMORY && reg)
		snprintf(text, PARAMETER_TEXT, "%s+0x%" PRIx64, reg, offset);
	else
		snprintf(text, PARAMETER_TEXT, "0x%" PRIx64, base);
	if (!p || p->where != SIGNATURE_REGISTERS || !reg)
		return false;
	snprintf(text, PARAMETER_TEXT, "%s", reg);
	return true;
}

bool parameter_value(const struct signature *signature, uint64_t base, char *text, size_t n)
{
	uint64_t offset = 0;
	const struct signature_value *p = parameter_of(signature, base, &offset);
	const char *reg = p && p->where == SIGNATURE_REGISTERS ? register_name(p, offset) : NULL;

	if (p && p->where == SIGNATURE_CONSTANT)
		snprintf(text, n, "(0x%" PRIx64 ")", p->constant);
	else if (reg && offset % 8)
		snprintf(text, n, "(%s>>%u)", reg, (unsigned int)(offset % 8 * 8));
	else if (reg)
		snprintf(text, n, "%s", reg);
	return reg || (p && p->where == SIGNATURE_CONSTANT);
}

const char *parameter_problem(const struct signature *signature, const struct expression_path *path,
			      bool is_address)
{
	uint64_t offset = 0;
	const struct signature_value *p = parameter_of(signature, path->base, &offset);

	if (!p)
		return NULL;
	switch (p->where) {
	case SIGNATURE_REGISTERS:
		if (!register_name(p, offset))
			return "that part of the parameter is not in a register of the hit";
		return is_address && !path->links ? "a parameter in a register has no address" :
						    NULL;
	case SIGNATURE_CONSTANT:
		return path->links ?
			       "the compiler made a copy of the function for one value of that "
			       "parameter" :
			       NULL;
	case SIGNATURE_VECTOR:
		return "that parameter is in a floating-point register, which a hit does not record";
	case SIGNATURE_GONE:
		return "the compiler optimised that parameter away";
	default:
		return NULL;
	}
}
