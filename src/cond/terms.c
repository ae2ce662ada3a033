/* SPDX-License-Identifier: MIT */
/* terms.c - see terms.h. */
#include "cond/terms.h"

#include <string.h>

#include "cond/ir.h"

static const struct cond_name names[] = {
	{ "new", 0, COND_NEW },
	{ "old", 0, COND_OLD },
	{ "changed", 0, COND_CHANGED },
	{ "addr", 0, COND_ADDR },
	{ "ip", 0, COND_IP },
	{ "tid", 0, COND_TID },
	{ "pid", 0, COND_PID },
	{ "cpu", 0, COND_CPU },
	{ "hits", 0, COND_HITS },
	{ "hits_in_thread", 0, COND_HITS_IN_THREAD },
	{ "caller", 0, COND_CALLER },
#if defined(__x86_64__)
	{ "rax", 1, 0 },
	{ "rdx", 1, 1 },
	{ "rcx", 1, 2 },
	{ "rbx", 1, 3 },
	{ "rsi", 1, 4 },
	{ "rdi", 1, 5 },
	{ "rbp", 1, 6 },
	{ "rsp", 1, 7 },
	{ "r8", 1, 8 },
	{ "r9", 1, 9 },
	{ "r10", 1, 10 },
	{ "r11", 1, 11 },
	{ "r12", 1, 12 },
	{ "r13", 1, 13 },
	{ "r14", 1, 14 },
	{ "r15", 1, 15 },
	{ "rip", 1, 16 },
	{ "arg0", 1, 5 },
	{ "arg1", 1, 4 },
	{ "arg2", 1, 1 },
	{ "arg3", 1, 2 },
	{ "arg4", 1, 8 },
	{ "arg5", 1, 9 },
	{ "ret", 1, 0 },
	{ "sp", 1, 7 },
#elif defined(__aarch64__)
	{ "x0", 1, 0 },
	{ "x1", 1, 1 },
	{ "x2", 1, 2 },
	{ "x3", 1, 3 },
	{ "x4", 1, 4 },
	{ "x5", 1, 5 },
	{ "x6", 1, 6 },
	{ "x7", 1, 7 },
	{ "x8", 1, 8 },
	{ "x9", 1, 9 },
	{ "x10", 1, 10 },
	{ "x11", 1, 11 },
	{ "x12", 1, 12 },
	{ "x13", 1, 13 },
	{ "x14", 1, 14 },
	{ "x15", 1, 15 },
	{ "x16", 1, 16 },
	{ "x17", 1, 17 },
	{ "x18", 1, 18 },
	{ "x19", 1, 19 },
	{ "x20", 1, 20 },
	{ "x21", 1, 21 },
	{ "x22", 1, 22 },
	{ "x23", 1, 23 },
	{ "x24", 1, 24 },
	{ "x25", 1, 25 },
	{ "x26", 1, 26 },
	{ "x27", 1, 27 },
	{ "x28", 1, 28 },
	{ "x29", 1, 29 },
	{ "x30", 1, 30 },
	{ "pc", 1, 32 },
	{ "arg0", 1, 0 },
	{ "arg1", 1, 1 },
	{ "arg2", 1, 2 },
	{ "arg3", 1, 3 },
	{ "arg4", 1, 4 },
	{ "arg5", 1, 5 },
	{ "ret", 1, 0 },
	{ "sp", 1, 31 },
#endif
};

const struct cond_name *cond_name_find(const char *name)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(names[i].name, name))
			return &names[i];
	return NULL;
}

/* The first of a number's names: the portable ones come after. */
const char *cond_register_name(uint32_t dwarf_number)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].is_register && names[i].number == dwarf_number)
			return names[i].name;
	return NULL;
}
