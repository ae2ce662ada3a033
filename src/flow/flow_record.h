/* SPDX-License-Identifier: MIT */
/* flow_record.h - what was found becomes records. */
#ifndef FLOW_FLOW_RECORD_H
#define FLOW_FLOW_RECORD_H

#include "flow/flow_state.h"

struct flow_wish {
	enum flow_kind kind;
	enum flow_grade grade;
	enum flow_memory memory;
	uint32_t source;
	uint32_t step;
	int fd;
	uint64_t bytes;
	uint64_t offset;
	uint64_t address;
	uint64_t block;
	uint64_t block_size;
	const char *name;
	const struct flow_open *open; /* NULL: it is not a descriptor */
};

void flow_record_flow(const struct flow_moment *m, const struct flow_wish *wish);
/* What a window has left to be recorded: its steps, its sources. */
void flow_record_pending(struct flow_thread *t);

#endif
