/* SPDX-License-Identifier: MIT */
/*
 * probe_table.c - what a thread that comes from a probe inspects, and a window: on the trap path.
 */
#include "code/probe/code_probe.h"

#include <string.h>

#include "base/atomic.h"
#include "base/trap_path.h"

struct code_probe code_probes[CODE_PROBES_MAX];
struct code_probe_text code_probe_texts[CODE_PROBES_HIDDEN];
uint32_t code_probe_text_count;

/* As far as the row and the bytes overlap. The text may be another one by now. */
TRAP_PATH static void put_back(const struct code_probe_text *row, uint64_t pc, uint8_t *text,
			       unsigned int n)
{
	const uint64_t from = row->address < pc ? pc - row->address : 0;
	const uint64_t at = row->address < pc ? 0 : row->address - pc;
	const uint64_t behind = at + row->len - from;
	const uint64_t count = (behind < n ? behind : n) - at;

	if (!memcmp(text + at, row->after + from, count))
		memcpy(text + at, row->before + from, count);
}

TRAP_PATH void code_probe_read_under(uint64_t pc, uint8_t *text, unsigned int n)
{
	const uint32_t count = atomic_get(&code_probe_text_count);

	for (uint32_t i = 0; i < count; i++) {
		const struct code_probe_text *row = &code_probe_texts[i];

		if (row->address + row->len > pc && row->address < pc + n)
			put_back(row, pc, text, n);
	}
}
