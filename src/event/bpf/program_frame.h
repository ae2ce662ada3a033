/* SPDX-License-Identifier: MIT */
/* program_frame.h - what the parts of a program have in registers and in the frame. */
#ifndef EVENT_BPF_PROGRAM_FRAME_H
#define EVENT_BPF_PROGRAM_FRAME_H

#include "base/ebpf.h"
#include "event/event.h"

/*
 * The parts of a program. R6 is the context, R7 the control page, R8 the record. The frame below
 * R10 has what one part finds for another. Older kernels want 32 bytes of the 512 for a function
 * that a condition calls.
 */
enum {
	FRAME_VALUE = -8,
	FRAME_WHEN = -16,
	FRAME_OLD = -24,
	FRAME_STACK_LEN = -32,
	FRAME_HITS = -40,
	FRAME_HITS_IN_THREAD = -48,
	FRAME_CONDITION = -376, /* COND_FRAME_BYTES */
	FRAME_CALL = -400,	/* struct uprobe_call */
	FRAME_TEXTS = -408,
	FRAME_LEN = -424,
	FRAME_RETURN =
		-456, /* the return address of a call, with the next one a struct uprobe_call */
	FRAME_ARGUMENT = -448,
	FRAME_IDS = -416,
	FRAME_STACK_AT = -440, /* where the copy of the stack begins */
	FRAME_NUMBER = -464,   /* of an event of the kernel: what record.address has */
	FRAME_SYSCALL = -472,
	FRAME_WORD = -480, /* of the kernel, as read last */
};

#define CONTEXT R6
#define CONTROL R7
#define RECORD R8
#define PLACE R9     /* of a data event: where it is, a struct event_place */
#define ARGUMENTS R9 /* of a tracepoint */

#define CONTROL_AT(member) ((int16_t)offsetof(struct event_control, member))

#endif
