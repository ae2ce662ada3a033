/* SPDX-License-Identifier: MIT */
/* hit_frames.c - see hit_frames.h. */
#include "cli/observe/hit_frames.h"

#include "record/layout.h"

#include <string.h>

#define ADDRESSES_MAX 64
#define REGISTERS RECORD_REGS

void hit_place(struct symbols *s, uint64_t ip, bool after, struct place *out)
{
	uint64_t back = after ? 1 : 0;

	symbols_place(s, ip - back, out);
	out->offset += out->function ? back : 0;
	out->module_offset += out->module ? back : 0;
}

/* The frames of a record, or those that a callback has. */
static size_t addresses_of(struct symbols *s, const struct trapline_hit *hit, uint64_t *frames)
{
	uint64_t regs[REGISTERS];
	size_t n = hit->stack_count < ADDRESSES_MAX ? hit->stack_count : ADDRESSES_MAX;

	for (unsigned int i = 0; i < REGISTERS; i++) {
		if (trapline_hit_register(hit, i, &regs[i]) < 0) {
			memcpy(frames, hit->stack, n * sizeof(*frames));
			return n;
		}
	}
	return symbols_unwind(s, regs, REGISTERS, hit->stack_bytes, hit->stack_bytes_len, hit->sp,
			      frames, ADDRESSES_MAX);
}

size_t frames_of(struct symbols *s, const uint64_t *ips, size_t n, bool after,
		 struct run_frame *out)
{
	struct place places[RUN_FRAMES_MAX];
	size_t count = 0;

	for (size_t i = 0; i < n && count < RUN_FRAMES_MAX; i++) {
		uint64_t back = i || after ? 1 : 0;
		size_t found = symbols_frames(s, ips[i] - back, places, RUN_FRAMES_MAX - count);

		for (size_t k = 0; k < found; k++) {
			struct run_frame *f = &out[count++];
			*f = (struct run_frame){ .ip = ips[i],
						 .place = places[k],
						 .is_inlined = k + 1 < found };
			f->place.offset += f->place.function && !f->is_inlined ? back : 0;
			f->place.module_offset += f->place.module ? back : 0;
		}
	}
	return count;
}

size_t hit_frames(struct symbols *s, const struct trapline_hit *hit, struct run_frame *out)
{
	uint64_t ips[ADDRESSES_MAX];
	size_t n = addresses_of(s, hit, ips);

	return frames_of(s, ips, n, hit->done && !hit->async, out);
}
