/* SPDX-License-Identifier: MIT */
/* probe_form.h - the instructions of a stub, by architecture. */
#ifndef CODE_PROBE_PROBE_FORM_H
#define CODE_PROBE_PROBE_FORM_H

#include <stdint.h>

#include "code/insn/relocate.h"
#include "code/probe/probe_stub.h"

#define FILTER_BYTES_MAX 2048u
#define STUB_BYTES_MAX (FILTER_BYTES_MAX + INSN_COPY_MAX + 64)

/* A stub as it is written, before it is put where it belongs. */
struct draft {
	uint64_t start;
	uint32_t length;
	uint8_t bytes[STUB_BYTES_MAX];
};

/* 0; -EOPNOTSUPP, -ENOSPC with *why. */
int probe_form(struct draft *draft, const struct probe_stub_wish *wish, struct probe_stub *out,
	       const char **why);

static inline void draft_add(struct draft *draft, const void *bytes, uint32_t n)
{
	__builtin_memcpy(draft->bytes + draft->length, bytes, n);
	draft->length += n;
}

/*
 * The copy of the instruction, and a jump behind the original. A call goes its own way: it has the
 * original's return address already.
 */
int draft_add_instruction(struct draft *draft, const struct probe_stub_wish *wish,
			  const char **why);
void draft_add_jump(struct draft *draft, uint64_t to);

#endif
