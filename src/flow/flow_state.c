/* SPDX-License-Identifier: MIT */
/* flow_state.c - see flow_state.h. */
#include "base/general_regs.h"

#include "flow/flow_state.h"

#include "base/atomic.h"
#include "base/sys.h"

struct flow_region *flow_region;
struct flow_text flow_texts[FLOW_SOURCES];
struct flow_site flow_sites[FLOW_SITES];
uint32_t flow_site_count;
uint64_t flow_libc_start, flow_libc_end;
uint32_t flow_has_ended;
pid_t flow_self;
__thread struct flow_thread *flow_own __attribute__((tls_model("initial-exec")));

/* They are about this process alone: a child has copies of its parent, which reports them. */
static uint32_t follows;
static uint32_t is_searched;

void flow_follows(void)
{
	if (!atomic_get(&follows) && !atomic_swap(&follows, 1u))
		flow_count(FLOW_FOLLOWED, 1);
}

int flow_has_followed(void)
{
	return atomic_get(&follows) != 0;
}

void flow_was_searched(void)
{
	if (flow_has_followed() && !atomic_swap(&is_searched, 1u))
		flow_count(FLOW_SEARCHED, 1);
}

void flow_state_forked(void)
{
	flow_self = sys_getpid();
	follows = is_searched = 0;
}

/* A signal of a register can still come when the region is about to be unmapped. */
int flow_is_over(void)
{
	return atomic_get(&flow_has_ended) || atomic_get(&flow_region->run.stop);
}

void flow_count(enum flow_counter counter, uint64_t n)
{
	counter_add(&flow_region->counters[counter], n);
}

void flow_copy_name(char *to, const char *from, size_t n)
{
	size_t i = 0;

	for (; from && from[i] && i + 1 < n; i++)
		to[i] = from[i];
	to[i] = '\0';
}
