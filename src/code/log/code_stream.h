/* SPDX-License-Identifier: MIT */
/* code_stream.h - the stream of changes to code: what is written into it. Lock held. */
#ifndef CODE_LOG_CODE_STREAM_H
#define CODE_LOG_CODE_STREAM_H

#include "code/log/code_stream_to.h"
#include "code/poke/change.h"

/* The stage of a batch; with BEGIN its sites. */
void code_stream_stage(const struct change *change, enum trapline_code_stage stage);

/* New code. A pair: from this offset on the code stands for that at origin. */
struct code_pair {
	uint32_t offset;
	uint64_t origin;
};
struct code_fresh {
	uint64_t begin_ns; /* before it was written */
	uint64_t address;
	const uint8_t *bytes;
	size_t len;
	uint64_t origin; /* it is for this instruction; 0: for none */
	struct code_pair pairs[16];
	uint32_t pair_count;
};
void code_stream_slot(const struct code_fresh *fresh);
/* value: a byte, or CODE_NOTHING. */
void code_stream_fill(uint64_t begin_ns, uint64_t address, uint64_t bytes, uint32_t value);
/* Names the objects that came since the last time. Without the lock: it asks the loader. */
void code_stream_objects(void);
/* fork_ns: since then the parent had the lock; parent 0: it had not. */
void code_stream_after_fork_in_child(pid_t parent, uint64_t fork_ns);

#endif
