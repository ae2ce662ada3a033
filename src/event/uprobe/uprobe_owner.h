/* SPDX-License-Identifier: MIT */
/*
 * uprobe_owner.h - the process that makes and closes the probes.
 *
 * The kernel sets and removes a probe by writing into the memory of the target. A process that is
 * being killed cannot: get_user_pages() ends with EINTR there, the int3 stays in the text, and the
 * kernel logs "failed to unregister, leaking uprobe" (kernel/events/uprobes.c). So a command has
 * another process for it, which shares its memory and its descriptors, and outlives it for a
 * moment.
 */
#ifndef EVENT_UPROBE_UPROBE_OWNER_H
#define EVENT_UPROBE_UPROBE_OWNER_H

#include "base/sys.h"

#include <linux/bpf.h>
#include <stddef.h>
#include <stdint.h>

typedef long (*uprobe_owner_call)(long number, const long args[5]);

/* Makes a system call in the owner's name. NULL: the thread makes it itself. */
extern uprobe_owner_call uprobe_owner;

static inline long uprobe_call(long number, long a, long b, long c, long d, long e)
{
	const long args[5] = { a, b, c, d, e };

	return uprobe_owner ? uprobe_owner(number, args) : sys5(number, a, b, c, d, e);
}

/* `attr` is what BPF_LINK_CREATE takes. A descriptor, or -errno. */
static inline int uprobe_link_new(const void *attr, size_t bytes)
{
	return (int)uprobe_call(SYS_bpf, BPF_LINK_CREATE, (long)(uintptr_t)attr, (long)bytes, 0, 0);
}

static inline void uprobe_link_close(int fd)
{
	uprobe_call(SYS_close, fd, 0, 0, 0, 0);
}

#endif
