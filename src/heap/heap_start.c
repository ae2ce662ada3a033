/* SPDX-License-Identifier: MIT */
/* heap_start.c - the detector begins in a process, and continues in its children. */
#include "heap/heap.h"

#include <errno.h>
#include <link.h>

#include "base/after_fork.h"
#include "base/atomic.h"
#include "base/memory.h"
#include "base/sys.h"
#include "guest/signals.h"
#include "heap/heap_budget.h"
#include "heap/heap_context.h"
#include "heap/heap_death.h"
#include "heap/heap_draw.h"
#include "heap/heap_family.h"
#include "heap/heap_fault.h"
#include "heap/heap_growth.h"
#include "heap/heap_pages.h"
#include "heap/heap_pool.h"
#include "heap/heap_tell.h"
#include "heap/heap_watch.h"

__thread struct heap_thread heap_self;
struct heap_range heap_range;
struct heap_range heap_data;
struct heap_range heap_plain;
struct heap_region *heap_region;
uint32_t heap_is_over;
uint32_t heap_run;
uint64_t heap_live;
uint32_t heap_is_growth;
AFTER_FORK int32_t heap_pid;
AFTER_FORK void (*heap_before_sample)(void);

/* The program comes first. */
static int find_data(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct heap_range *out = arg;

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + ph->p_vaddr;

		if (ph->p_type != PT_LOAD)
			continue;
		if (!out->start)
			out->start = start;
		out->bytes = start + ph->p_memsz - out->start;
	}
	return 1;
}

#define PLAIN_BYTES ((size_t)1 << 36)

static bool is_behind(uintptr_t start, size_t bytes, uintptr_t at)
{
	return at >= start && at - start < bytes;
}

/* With an address of each kind that must not be in it: libraries and stacks are near to these. */
static struct heap_range plain_of(const struct heap_range *range)
{
	const uintptr_t start = heap_data.start + heap_data.bytes;
	const uintptr_t others[] = { range->start, (uintptr_t)&heap_plain, (uintptr_t)&start };
	struct heap_range plain = { start, heap_data.bytes ? PLAIN_BYTES : 0 };

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (is_behind(start, PLAIN_BYTES, others[i]))
			plain.bytes = 0;
	return plain;
}

/* Or -errno as a pointer. */
static void *family_of(struct heap_region *region)
{
	return region->settings.has_family ? region->family :
					     memory_map_inherited(HEAP_FAMILY_BYTES);
}

static int start_all(struct heap_region *region, struct heap_range *range)
{
	void *family = family_of(region);

	if (memory_failed(family))
		return memory_error(family);
	heap_growth_start(region);
	heap_budget_start(region, family);
	heap_draw_start(region->settings.seed, family);
	heap_block_start();
	int err = heap_context_start(region->settings.first, family);

	if (!err)
		err = heap_tell_start();
	if (!err)
		err = heap_pool_start(range, &region->pool_bytes);
	if (!err) {
		heap_pages_start(range->start, !region->settings.no_regions && !heap_is_growth);
		region->has_regions = heap_pages_are_regions();
	}
	if (!err)
		err = heap_fault_start();
	return err;
}

int heap_start(struct heap_region *region)
{
	struct heap_range range;
	uint64_t begun = heap_budget_begin_long();

	heap_region = region;
	dl_iterate_phdr(find_data, &heap_data);
	int err = start_all(region, &range);
	if (err) {
		heap_region = NULL;
		return err;
	}
	counter_add(&region->counters[HEAP_PROCESSES], 1u);
	heap_pid = sys_getpid();
	heap_range = range;
	heap_plain = plain_of(&range);
	heap_self.until = 0; /* what passed until now had none to pass for */
	heap_death_start();
	heap_budget_spend_start(begun);
	return 0;
}

AT_FORK void heap_forked(void)
{
	heap_self = (struct heap_thread){ .busy = heap_self.busy };
	if (!heap_range.bytes)
		return;
	heap_pid = sys_getpid();
	heap_budget_forked();
	heap_block_forked();
	heap_pages_forked();
	heap_fault_forked();
	heap_tell_forked();
	heap_watch_forked();
	counter_add(&heap_region->counters[HEAP_PROCESSES], 1u);
	counter_add(&heap_region->counters[HEAP_FORKED], 1u);
}

void heap_stop(void)
{
	if (!heap_range.bytes || atomic_swap(&heap_is_over, 1u))
		return;
	heap_self.busy++;
	heap_watch_end();
	heap_death_leave();
	heap_pool_let_all(heap_range.start, heap_range.bytes);
	signals_let_go(SIGSEGV);
	heap_self.busy--;
}

int heap_start_again(struct heap_region *region)
{
	/* The pool of the run before is made for the other one. */
	if (heap_is_growth != (region->settings.growth != 0))
		return -EBUSY;
	heap_growth_start(region);
	heap_budget_start(region, region->family);
	heap_draw_start(region->settings.seed, region->family);
	heap_context_forget(region->settings.first, region->family);
	heap_tell_forked();
	region->pool_bytes = heap_region->pool_bytes;
	region->has_regions = heap_pages_are_regions();
	counter_add(&region->counters[HEAP_PROCESSES], 1u);
	atomic_set(&heap_region, region);
	int err = heap_fault_start();
	if (err)
		return err;
	if (!heap_is_growth)
		heap_pool_close_unused();
	atomic_add(&heap_run, 1u);
	heap_self.until = 0;
	atomic_set(&heap_is_over, 0u);
	heap_death_start();
	return 0;
}

AT_FORK void heap_forked_alone(void)
{
	heap_self = (struct heap_thread){ .busy = heap_self.busy };
	heap_pid = sys_getpid();
	heap_pages_forked();
	heap_fault_forked();
	heap_watch_forked();
	heap_stop();
}
