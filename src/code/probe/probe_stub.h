/* SPDX-License-Identifier: MIT */
/* probe_stub.h - the code that a probe's jump leads to. All of it needs poke_lock. */
#ifndef CODE_PROBE_PROBE_STUB_H
#define CODE_PROBE_PROBE_STUB_H

#include "code/probe/code_probe.h"

/* What is to be built. */
struct probe_stub_wish {
	uint64_t address;
	const uint8_t *text; /* the instruction there, of len bytes */
	uint32_t len;
	const struct code_filter *filter;
	uint32_t number;
	void (*entry)(void);
};

/* Where it is, and where the copy of the instruction. */
struct probe_stub {
	uint64_t start;
	uint64_t resume;
	uint64_t when_true; /* where the filter's "true" leads */
};

/*
 * Build the stub within reach of the address. 0; -EOPNOTSUPP: the instruction cannot run elsewhere,
 * with *why; -ENOSPC: no memory near; -EACCES. What was built is never given back.
 */
int probe_stub_make(const struct probe_stub_wish *wish, struct probe_stub *out, const char **why);

#endif
