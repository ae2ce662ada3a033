/* SPDX-License-Identifier: MIT */
/*
 * insn.c - any bytes at all, decoded, asked what they store, copied and looked back at (libFuzzer).
 *
 * What must hold for all bytes is asserted; the sanitizers see to the rest.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "code/insn/insn_back.h"
#include "code/insn/insn_stored.h"
#include "code/insn/relocate.h"
#include "fuzz.h"

#define MUST(claim)              \
	do {                     \
		if (!(claim))    \
			abort(); \
	} while (0)

static struct insn_regs regs_from(const uint8_t *data, size_t size)
{
	struct insn_regs regs = { .known = ~0ull };

	for (unsigned int i = 0; i < INSN_REGS; i++)
		regs.r[i] = (uint64_t)data[i % size] << (i % 8 * 8) | data[(i * 3) % size];
	regs.flags = data[size / 2] | (uint64_t)data[size - 1] << 8;
	return regs;
}

static void check_shape(const struct insn *insn, const struct insn_regs *regs)
{
	MUST(insn->length >= 1 && insn->length <= INSN_LENGTH_MAX);
	MUST(insn->kind <= INSN_STRING);
	MUST(insn->memory_count <= INSN_MEMORY_MAX);
	for (unsigned int i = 0; i < insn->memory_count; i++) {
		const struct insn_memory *m = &insn->memory[i];
		uint64_t address = 0;

		MUST(m->access & INSN_READ_WRITE);
		MUST(!m->size == !!(m->flags & INSN_MEM_SIZE_UNKNOWN));
		insn_address(insn, i, regs, &address);
		if (insn_touches(insn, i, regs, address, 8) == 1)
			MUST(m->size);
	}
	MUST((insn->kind == INSN_JUMP_CONDITIONAL) ==
	     (insn->condition != INSN_CONDITION_NONE));
	insn_branch_taken(insn, regs);
}

/* A copy consists of whole instructions; one that is the same or corrected is of the same kind. */
static void check_copy(const struct insn *insn, const struct insn_copy *copy)
{
	struct insn part;
	unsigned int at = 0;

	MUST(copy->length <= INSN_COPY_MAX);
	while (at < copy->length) {
		MUST(insn_decode_x86_64(copy->bytes + at, copy->length - at, &part) == 0);
		if (copy->kind != INSN_COPY_REPLACED)
			MUST(part.kind == insn->kind && part.memory_count == insn->memory_count);
		at += part.length;
	}
}

static void try_x86_64(const uint8_t *data, size_t size, const struct insn_regs *regs)
{
	struct insn insn;
	struct insn again;
	struct insn_copy copy;
	uint64_t stored = 0;
	const int err = insn_decode_x86_64(data, size, &insn);

	MUST(insn_length_x86_64(data, size) == (err ? err : insn.length));
	if (err)
		return;
	check_shape(&insn, regs);
	MUST(insn.length <= size);
	MUST(insn_decode_x86_64(data, insn.length, &again) == 0);
	MUST(memcmp(&insn, &again, sizeof(insn)) == 0);
	MUST(insn_decode_x86_64(data, insn.length - 1u, &again) != 0 || again.length < insn.length);
	if (!insn_stored_x86_64(&insn, data, regs, &stored))
		MUST(insn.memory[0].size == 8 || !(stored >> insn.memory[0].size * 8));
	if (!insn_relocate_x86_64(&insn, data, 0x10000, 0x20000, &copy, NULL))
		check_copy(&insn, &copy);
}

static void try_back(const uint8_t *data, size_t size, const struct insn_regs *regs)
{
	struct insn_regs after = *regs;
	struct insn_back back;
	struct insn_back_query query = {
		.text = data,
		.text_address = 0x400000,
		.text_bytes = size,
		.watch = after.r[data[0] % 16] + data[size - 1] % 32,
		.watch_bytes = 1u << data[size / 2] % 4,
		.access = data[0] & 2 ? INSN_WRITE : INSN_READ_WRITE,
		.after = &after,
	};

	after.r[INSN_RIP] = 0x400000 + data[size / 2] % (size + 1);
	insn_back_x86_64(&query, &back);
	MUST(back.count <= INSN_BACK_MAX);
	MUST((back.found == INSN_BACK_NONE) == (back.count == 0));
	for (unsigned int i = 0; i < back.count; i++)
		MUST(back.candidates[i].access & query.access);
}

static void try_arm64(const uint8_t *data, size_t size, const struct insn_regs *regs)
{
	struct insn insn;

	for (size_t at = 0; at + 4 <= size; at += 4)
		if (!insn_decode_arm64(data + at, size - at, &insn)) {
			check_shape(&insn, regs);
			MUST(insn.length == 4);
		}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	const struct insn_regs regs = regs_from(data, size);

	try_x86_64(data, size, &regs);
	try_back(data, size, &regs);
	try_arm64(data, size, &regs);
	return 0;
}
