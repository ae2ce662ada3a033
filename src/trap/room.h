/* SPDX-License-Identifier: MIT */
/* room.h - whether a stack has room for what comes next. */
#ifndef TRAP_ROOM_H
#define TRAP_ROOM_H

#include <stdint.h>
#include <sys/types.h>
#include <ucontext.h>

/* Are there so many bytes below the caller, and what one more signal needs? AS-Safe. */
int trap_has_room(uint64_t bytes);
/* Before that: the thread may be on its alternate stack. AS-Safe. */
void trap_note_stack(const ucontext_t *context);
extern struct trap_room {
	pid_t pid;		/* as of trap_install() */
	uint64_t signal_bytes;	/* of the kernel, at most */
	uint64_t handler_bytes; /* of Trapline on top of itself */
	/* The first thread's stack, as far down as it may grow. */
	uint64_t first_low;
	uint64_t first_high;
} trap_room;

#endif
