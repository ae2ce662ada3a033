/* SPDX-License-Identifier: MIT */
/*
 * flow_glance.c - see flow_glance.h.
 *
 * It runs before vector registers are saved, on the stack of the program: it has little of it, and
 * searches in the memory of the thread's window. A signal handler of the program may come in
 * between and do the same. What is found here is only a reason to inspect the call.
 */
#include "base/general_regs.h"

#include "flow/flow_glance.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include "base/atomic.h"
#include "base/sys.h"
#include "flow/flow_mapped.h"
#include "flow/flow_marks.h"
#include "flow/flow_text.h"

#define PARTS 16u

struct got {
	struct iovec part[PARTS];
	uint32_t count;
	uint64_t bytes;
};

static int add_vector(struct got *g, uint64_t at, uint64_t n)
{
	if (n > PARTS || sys_read_memory(flow_self, at, g->part, n * sizeof(g->part[0])) !=
				 (ssize_t)(n * sizeof(g->part[0])))
		return 0;
	g->count = (uint32_t)n;
	return 1;
}

/* 0: not known. */
static int find_parts(const struct flow_site *site, const greg_t *r, struct got *g)
{
	const uint64_t at = (uint64_t)r[REG_RSI];
	struct msghdr message;

	/* They all have the descriptor, a pointer and a length. */
	switch (site->kind) {
	case FLOW_SITE_RESUME:
		return 1;
	case FLOW_SITE_RANGE:
		g->part[0] = (struct iovec){ (void *)(uintptr_t)at, (size_t)r[REG_RDX] };
		g->count = 1;
		return 1;
	case FLOW_SITE_VECTOR:
		return add_vector(g, at, (uint64_t)r[REG_RDX]);
	case FLOW_SITE_MESSAGE:
		return sys_read_memory(flow_self, at, &message, sizeof(message)) ==
			       sizeof(message) &&
		       add_vector(g, (uint64_t)(uintptr_t)message.msg_iov, message.msg_iovlen);
	default:
		return 0;
	}
}

/* The kernel took so many bytes: the rest comes with another call. */
static void cut(struct got *g, uint64_t taken)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->count && taken; i++) {
		if (g->part[i].iov_len > taken)
			g->part[i].iov_len = taken;
		taken -= g->part[i].iov_len;
		g->bytes += g->part[i].iov_len;
		n = i + 1;
	}
	g->count = n;
}

static int has_text(const uint8_t *bytes, size_t n)
{
	const struct flow_searched *s;

	for (uint32_t i = 0; (s = flow_text_at(i)) != NULL; i++)
		if (atomic_get(&s->source) && atomic_get(&s->is_ready) &&
		    flow_text_find(s, bytes, 0, n) != n)
			return 1;
	return 0;
}

/* 1: no text is there, for certain. Each part but the first begins with the end of that before. */
static int is_without_text(struct flow_thread *t, struct got *g)
{
	const struct iovec local = { t->words, sizeof(t->words) };
	const uint64_t step = sizeof(t->words) - FLOW_SEARCHED_MOST;

	if (!g->bytes)
		return 1;
	if (g->count > 1)
		return sys6(SYS_process_vm_readv, flow_self, &local, 1, g->part, g->count, 0) ==
			       (long)g->bytes &&
		       !has_text((const uint8_t *)t->words, g->bytes);
	for (uint64_t done = 0; done < g->bytes; done += step) {
		const uint64_t left = g->bytes - done;
		const size_t n = left < sizeof(t->words) ? (size_t)left : sizeof(t->words);
		const uint64_t at = (uint64_t)(uintptr_t)g->part[0].iov_base + done;

		if (sys_read_memory(flow_self, at, t->words, n) != (ssize_t)n ||
		    has_text((const uint8_t *)t->words, n))
			return 0;
	}
	return 1;
}

int flow_glance(const struct flow_site *site, const ucontext_t *context, uint64_t *bytes)
{
	const greg_t *r = context->uc_mcontext.gregs;
	struct flow_thread *t = flow_own;
	struct got g = { .count = 0 };

	*bytes = 0;
	/* A child by vfork(2) ends: its memory is that of the parent. */
	if (site->kind == FLOW_SITE_END)
		return !flow_has_followed() || sys_getpid() != flow_self;
	if (site->kind == FLOW_SITE_MAPPED)
		return !flow_mapped_may((uint64_t)r[REG_RDI], (uint64_t)r[REG_RSI]) ||
		       sys_getpid() != flow_self;
	for (const struct flow_site *s = site; s; s = flow_site_next(s))
		if (!s->is_behind || s->kind != site->kind)
			return 0;
	if (site->kind < FLOW_SITE_SINKS && site->kind != FLOW_SITE_RESUME)
		return 0;
	if (!atomic_get(&flow_region->sources_used))
		return 1;
	if (!t || t->suspended_pc)
		return 0;
	if (r[REG_RAX] <= 0)
		return 1;
	if (!find_parts(site, r, &g))
		return 0;
	cut(&g, (uint64_t)r[REG_RAX]);
	for (uint32_t i = 0; i < g.count; i++)
		if (flow_marks_may((uint64_t)(uintptr_t)g.part[i].iov_base, g.part[i].iov_len))
			return 0;
	if (!flow_text_any())
		return 1;
	*bytes = g.bytes;
	return is_without_text(t, &g);
}
