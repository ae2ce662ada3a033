/* SPDX-License-Identifier: MIT */
/* hit_insn.c - see hit_insn.h. */
#include "core/hit_insn.h"

#include <string.h>

#include "base/memory.h"
#include "base/sys.h"

static int copy(struct hit_code *code, uint64_t start, uint64_t end)
{
	const ssize_t n = (ssize_t)(end - start);

	code->start = start;
	code->count = n > 0 && sys_read_memory(sys_getpid(), start, code->bytes, (size_t)n) == n ?
			      (size_t)n :
			      0;
	return code->count != 0;
}

/* Copied by the kernel, so that it cannot fault: the pages before and behind may not be there. */
static void copy_code(uint64_t pc, struct hit_code *code)
{
	const uint64_t page = pc & ~(uint64_t)(PAGE_BYTES - 1);
	const uint64_t start = pc - HIT_CODE_BEFORE;
	const uint64_t nearest = page > start ? page : start;

	if (!copy(code, start, pc + HIT_CODE_AFTER) && !copy(code, start, pc) &&
	    !copy(code, nearest, pc + HIT_CODE_AFTER))
		copy(code, nearest, pc);
}

void hit_insn_find(const struct trapline_hit *hit, const struct insn_regs *after,
		   struct hit_code *code, struct insn_back *out)
{
	copy_code(hit->ip, code);
	const struct insn_back_query query = {
		.text = code->bytes,
		.text_address = code->start,
		.text_bytes = code->count,
		.watch = hit->address,
		.watch_bytes = hit->len,
		.access = INSN_READ_WRITE,
		.after = after,
	};
	memset(out, 0, sizeof(*out));
	if (code->count)
		insn_back_x86_64(&query, out);
}
