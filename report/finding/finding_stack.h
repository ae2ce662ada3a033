/* SPDX-License-Identifier: MIT */
/* finding_stack.h - a stack of a finding as suppressions see it. */
#ifndef REPORT_FINDING_FINDING_STACK_H
#define REPORT_FINDING_FINDING_STACK_H

#include "report/files/file_places.h"
#include "report/suppress/suppress.h"

#include <limits.h>
#include <stdbool.h>

#define FINDING_FRAMES 24  /* of a record, at most */
#define FINDING_INLINED 16 /* functions at each */

/* What the frames point to. */
struct finding_stack {
	struct suppress_frame frames[FINDING_FRAMES * FINDING_INLINED];
	char paths[FINDING_FRAMES][512];
};

/*
 * top: the frame that makes the access; UINT_MAX: the first that is not in a library of the system.
 * The stack is valid as long as the room.
 */
void finding_stack_fill(struct file_places *places, const uint64_t *frames, uint32_t n,
			bool is_access, uint32_t top, struct finding_stack *room,
			struct suppress_stack *out);

#endif
