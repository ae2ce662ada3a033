/* SPDX-License-Identifier: MIT */
/*
 * race_call_targets.c - the memory that a call of a libc function will access for its
 * caller.
 *
 * Only accesses that are certain and come before the function waits for anything. Examples are a
 * string argument to its end, the first byte where the function may stop there, and the bytes
 * passed to the kernel. Memory that the kernel writes is excluded: read() may wait for a thread
 * that still uses the buffer.
 */
#include "race/sweep/race_call_targets.h"

#include <errno.h>

#include "base/memory.h"
#include "base/trap_path.h"
#include "code/insn/insn.h"
#include "race/race_modules.h"
#include "race/race_state.h"
#include "race/stall/race_slot.h"
#include "race/stall/race_target.h"
#include "race/sweep/race_calls.h"
#include "record/race_region.h"

#define STRING_MAX 128u
#define BYTES_MAX (1ull << 30)

/*
 * The length of the string at an address, up to its end; what is longer is inspected in its first
 * bytes only.
 */
TRAP_PATH static uint64_t string_bytes(uint64_t address)
{
	char text[STRING_MAX];
	uint64_t page_left = PAGE_BYTES - address % PAGE_BYTES;
	size_t n = page_left < sizeof(text) ? page_left : sizeof(text);

	if (!race_copy(address, text, n))
		return 0;
	for (size_t i = 0; i < n; i++)
		if (!text[i])
			return i + 1;
	return n;
}

/* Behind the string that is there: one byte. */
TRAP_PATH static uint64_t append_bytes(uint64_t *address)
{
	uint64_t bytes = string_bytes(*address);

	*address += bytes ? bytes - 1 : 0;
	return bytes != 0 && bytes < STRING_MAX;
}

TRAP_PATH static uint64_t product(uint64_t a, uint64_t b)
{
	return a <= BYTES_MAX && b <= BYTES_MAX ? a * b : 0;
}

/* A side of those that have two, by chance. Returns how many bytes; 0: none for certain. */
TRAP_PATH static uint64_t choose_side(enum race_call kind, const struct insn_regs *regs,
				      struct race_target *out)
{
	uint64_t first = regs->r[INSN_RDI];
	uint64_t second = regs->r[INSN_RSI];
	uint64_t third = regs->r[INSN_RDX];
	int is_second = race_random() % 2;

	out->access = RACE_READ;
	switch (kind) {
	case RACE_CALL_COPY:
	case RACE_CALL_STRING:
		out->access = is_second ? RACE_READ : RACE_WRITE;
		out->address = is_second ? second : first;
		return kind == RACE_CALL_COPY ? third : 1;
	case RACE_CALL_COMPARE_N:
	case RACE_CALL_COMPARE:
		out->address = is_second ? second : first;
		return kind == RACE_CALL_COMPARE || third;
	case RACE_CALL_OUT:
		out->address = second;
		return third;
	case RACE_CALL_OUT_OF:
		out->address = first;
		return product(second, third);
	case RACE_CALL_FIRST:
		out->address = first;
		return 1;
	case RACE_CALL_LENGTH:
		out->address = first;
		return string_bytes(first);
	default:
		break;
	}
	out->access = RACE_WRITE;
	out->address = first;
	switch (kind) {
	case RACE_CALL_FILL:
		return third;
	case RACE_CALL_PRINT_N:
		return second != 0;
	case RACE_CALL_APPEND:
		return append_bytes(&out->address);
	default:
		return 1;
	}
}

TRAP_PATH int race_find_call_target(enum race_call kind, const struct insn_regs *regs,
				    struct race_target *out)
{
	uint64_t bytes = choose_side(kind, regs, out);

	if (!bytes || bytes > BYTES_MAX)
		return -ENOENT;
	out->size = (uint32_t)bytes;
	out->flags = RACE_DECODED;
	race_choose_part(out);
	return 0;
}
