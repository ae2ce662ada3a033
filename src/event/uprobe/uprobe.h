/* SPDX-License-Identifier: MIT */
/*
 * uprobe.h - one event on many instructions, without debug registers: uprobes and a BPF program.
 */
#ifndef EVENT_UPROBE_UPROBE_H
#define EVENT_UPROBE_UPROBE_H

#include "event/event.h"

/*
 * part of a hit: the instruction is about to run; or the function it begins returns, or leaves by a
 * jump to code that is not followed. The values are those of hit.returned.
 */
enum {
	UPROBE_ENTRY,
	UPROBE_RETURN,
	UPROBE_LEAVE
};

/*
 * Attach at all addresses of the target, or at none. 0 or -errno, and *why is a reason then.
 * ENOENT: an address is in no file. EOPNOTSUPP: the kernel has no such probes, or too many are
 * asked of one that has only single ones, or the returns of a function cannot be found. EPERM.
 */
int uprobes_open(struct trapline_event *ev, const uint64_t *addrs, size_t count, int ring_fd,
		 const char **why);
void uprobes_close(struct trapline_event *ev);

/*
 * The breakpoints leave the code, and come back to it; what was counted stays. 0 or -errno: EBUSY,
 * another thread is at it. To attach again can fail as uprobes_open() does, and may be tried again.
 */
int uprobes_rest(struct trapline_event *ev);
int uprobes_attach_again(struct trapline_event *ev);

/* Whether the executions of this instruction, and nothing else, are hits of the event. */
int uprobe_is_at(const struct trapline_event *ev, uint64_t address);

#endif
