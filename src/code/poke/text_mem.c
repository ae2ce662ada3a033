/* SPDX-License-Identifier: MIT */
/* text_mem.c - see text_mem.h. */
#include "code/poke/text_mem.h"

#include "base/after_fork.h"
#include "base/atomic.h"
#include "code/kept_fd.h"
#include "code/poke/change.h"
#include "code/poke/poke.h"

static struct mem mem = MEM_NONE;
static struct kept_fd kept = KEPT_FD_NONE;
static uint32_t holders;

struct mem *text_mem_get(void)
{
	if (mem.pidfd >= 0 || kept_fd_is_ours(&kept))
		return &mem;
	mem = (struct mem)MEM_NONE;
	kept_fd_take(&kept, mem_open_plain());
	/* Without a descriptor mem_write() opens one, or states why not. */
	mem.fd = kept.fd;
	return &mem;
}

static void close_mem(void)
{
	/* A tracee's replaces the other, which is closed then. */
	if (mem.pidfd >= 0)
		mem_close(&mem);
	else
		kept_fd_close(&kept);
	kept = (struct kept_fd)KEPT_FD_NONE;
	mem = (struct mem)MEM_NONE;
}

int text_mem_is_held(void)
{
	return atomic_get(&holders) != 0;
}

/* A tracee belongs to the calling thread. */
void text_mem_put(void)
{
	if (!text_mem_is_held() || mem.pidfd >= 0)
		close_mem();
}

void text_mem_hold(void)
{
	atomic_add(&holders, 1u);
}

/* From inside a callback the next change closes it. */
void text_mem_drop(void)
{
	struct code_problem problem;

	if (atomic_add(&holders, -1u) != 1 || poke_lock_take(&problem))
		return;
	if (!text_mem_is_held())
		close_mem();
	poke_lock_give();
}

AT_FORK void text_mem_after_fork_in_child(void)
{
	kept_fd_close(&kept);
	if (mem.fd >= 0 || mem.pidfd >= 0)
		mem = (struct mem)MEM_NONE;
}
