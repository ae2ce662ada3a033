/* SPDX-License-Identifier: MIT */
/* insn_text.h - a decoded instruction as one line, for golden cases and messages of tests. */
#ifndef TESTS_INSN_TEXT_H
#define TESTS_INSN_TEXT_H

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "code/insn/insn.h"

static inline const char *text_reg(const struct insn *insn, uint8_t reg, char buf[8])
{
	static const char *const x86[] = { "rax", "rdx", "rcx", "rbx", "rsi", "rdi",
					   "rbp", "rsp", "r8",	"r9",  "r10", "r11",
					   "r12", "r13", "r14", "r15", "rip" };

	if (insn->arch == INSN_X86_64)
		return reg <= INSN_RIP ? x86[reg] : "?";
	if (reg == INSN_ARM64_SP)
		return "sp";
	if (reg == INSN_ARM64_PC)
		return "pc";
	snprintf(buf, 8, "x%u", reg);
	return buf;
}

static inline const char *text_kind(uint8_t kind)
{
	static const char *const names[] = { "other", "nop",   "landing", "jump",
					     "jcc",   "ijump", "call",	  "icall",
					     "ret",   "trap",  "syscall", "fence",
					     "string" };

	return kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "?";
}

/* "rw8 fs:[rbx+rax*8+16] if": access and size, address, marks. */
static inline void text_memory(const struct insn *insn, const struct insn_memory *m,
			       char *out, size_t size)
{
	static const char *const segments[] = { "", "fs:", "gs:" };
	char buf[8];
	int n = snprintf(out, size, "%s%s%" PRIu32 " %s[",
			 m->access & INSN_READ ? "r" : "",
			 m->access & INSN_WRITE ? "w" : "", m->size,
			 segments[m->segment]);

	if (m->base != INSN_NO_REG)
		n += snprintf(out + n, size - (size_t)n, "%s",
			      text_reg(insn, m->base, buf));
	if (m->flags & INSN_MEM_LANES)
		n += snprintf(out + n, size - (size_t)n, "+v%u.%u*%u", m->index,
			      m->index_bits, m->scale);
	else if (m->index != INSN_NO_REG)
		n += snprintf(out + n, size - (size_t)n, "+%s%s%s*%u",
			      m->index_bits == 64 ? "" :
			      m->index_signed	  ? "s" :
						    "u",
			      m->index_bits == 64 ? "" :
			      m->index_bits == 8  ? "8:" :
						    "32:",
			      text_reg(insn, m->index, buf), m->scale);
	if (m->displacement || (m->base == INSN_NO_REG && m->index == INSN_NO_REG))
		n += snprintf(out + n, size - (size_t)n, "%+" PRId64, m->displacement);
	n += snprintf(out + n, size - (size_t)n, "]");

	const char *marks[] = {
		"i", "c", "?", "L", "!", "a32", "rep", "bit", "wb", "line"
	};
	for (unsigned int bit = 0; bit < sizeof(marks) / sizeof(marks[0]); bit++)
		if (m->flags & 1u << bit)
			n += snprintf(out + n, size - (size_t)n, " %s", marks[bit]);
	if (m->flags & INSN_MEM_WRITEBACK)
		n += snprintf(out + n, size - (size_t)n, "%+" PRId64, m->writeback);
	if (m->flags & INSN_MEM_LANES)
		n += snprintf(out + n, size - (size_t)n, " %ux%u", m->lanes,
			      m->lane_bytes);
}

/* "LENGTH KIND [-> TARGET] [atomic] ...; MEMORY; MEMORY" */
static inline void text_insn(const struct insn *insn, char *out, size_t size)
{
	static const char *const flags[] = { "atomic", "exclusive",  "acquire", "release",
					     "",       "",	     "",	"pcrel",
					     "rep",    "privileged", "more",	"",
					     "far",    "hint",	     "fixed",	"" };
	int n = snprintf(out, size, "%u %s", insn->length, text_kind(insn->kind));

	if (insn->flags & INSN_RELATIVE_BRANCH)
		n += snprintf(out + n, size - (size_t)n, " -> %+" PRId64, insn->target);
	if (insn->flags & INSN_CHANGES_SP)
		n += snprintf(out + n, size - (size_t)n, " sp%+d", insn->sp_change);
	for (unsigned int bit = 0; bit < 16; bit++)
		if (flags[bit][0] && insn->flags & 1u << bit)
			n += snprintf(out + n, size - (size_t)n, " %s", flags[bit]);
	for (unsigned int i = 0; i < insn->memory_count; i++) {
		n += snprintf(out + n, size - (size_t)n, "; ");
		text_memory(insn, &insn->memory[i], out + n, size - (size_t)n);
		n += (int)strlen(out + n);
	}
}

/* "48 8b 05": the number of bytes, at most max. */
static inline size_t text_bytes(const char *hex, uint8_t *out, size_t max)
{
	size_t n = 0;
	unsigned int byte;
	int used;

	while (n < max && sscanf(hex, " %2x%n", &byte, &used) == 1) {
		out[n++] = (uint8_t)byte;
		hex += used;
	}
	return n;
}

#endif
