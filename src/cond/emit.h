/* SPDX-License-Identifier: MIT */
/* emit.h - from the steps of a condition to eBPF, inside a program that states where things are. */
#ifndef COND_EMIT_H
#define COND_EMIT_H

#include "base/ebpf.h"
#include "cond/ir.h"

#define COND_BUFFER_BYTES 64
#define COND_FRAME_BYTES (COND_BUFFER_BYTES + 8 * (COND_HEIGHT_MAX + 1))

struct cond_place {
	int context; /* registers with the BPF context and the control page */
	int control;
	int16_t zero_at;  /* of a number in the control page that is always 0 */
	int16_t frame_at; /* COND_FRAME_BYTES of the frame begin here, 8-aligned, below R10 */
	int16_t terms_at[COND_TERM_COUNT]; /* frame offsets of NEW OLD HITS HITS_IN_THREAD */
	int16_t addr_at;		   /* offset in the context */
	const int16_t *regs_at;		   /* offsets in the context, by DWARF number */
	uint32_t ip_reg;
	uint32_t caller_reg;
	int32_t caller_add;
	int caller_in_memory; /* the caller is at register + add, or the register itself */
	/* Where the counts of other events are: an offset in the value of a map, -1: nowhere. */
	int count_maps[COND_EVENTS_MAX];
	uint32_t count_at;
	struct ebpf_ids ids; /* what tid and pid are numbered by */
};

/*
 * Leaves 1 in R0 when the condition is true, 0 when not, 2 when a load failed or a divisor was 0.
 * Uses R0 to R5. 0 or -errno when the condition cannot be compiled here.
 */
int cond_emit(struct ebpf *p, const struct condition *c, const struct cond_place *place);

/* Behind the last instruction of the program: the functions that its conditions call. */
void cond_emit_functions(struct ebpf *p);

#endif
