/* SPDX-License-Identifier: MIT */
/* code_emit.h - a record of a change to code goes into the stream, or is lost and counted. */
#ifndef CODE_LOG_CODE_EMIT_H
#define CODE_LOG_CODE_EMIT_H

#include "record/code_layout.h"

/* poke_lock is taken where it changes. Handlers only read fd. */
struct code_sink {
	int fd; /* + 1; 0: no stream */
	uint64_t dev;
	uint64_t ino;
	uint64_t source;
	/* What found no room since the last record that did. */
	uint32_t lost_changes;
	uint32_t lost_hits;
	uint64_t lost_since;
};
extern struct code_sink code_sink;

int code_emit_is_on(void);
/* kind and payload are set. From a handler too. 0, or -errno: it is counted as lost. */
int code_emit(struct code_head *record);
/* A thread met the trap of a batch at address, and continues at resume. */
void code_emit_hit(uint64_t address, uint64_t resume, uint32_t is_orphan);

#endif
