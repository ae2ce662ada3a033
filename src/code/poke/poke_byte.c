/* SPDX-License-Identifier: MIT */
/*
 * poke_byte.c - one byte of many instructions, without a sync.
 *
 * For a caller that waits until each thread has stated that it ran the new code: the three syncs of
 * poke.h would cost more than all the rest. Old and new instruction differ in this one byte, so
 * there is nothing to tear, wherever the instruction lies. It is done only where single stores to
 * code are promised.
 *
 * A page is written at once through /proc/thread-self/mem, whose descriptor a domain has.
 */
#include "code/poke/poke_byte.h"

#include <errno.h>
#include <string.h>

#include "base/memory.h"
#include "code/poke/change.h"
#include "code/poke/text_mem.h"
#include "code/poke/traps.h"

#define PAGE_MASK (~(uint64_t)(PAGE_BYTES - 1))

static const uint8_t *text_at(uint64_t address)
{
	return (const uint8_t *)(uintptr_t)address;
}

static int check(const uint64_t *addresses, size_t n, uint8_t old, uint8_t new,
		 struct code_problem *problem)
{
	for (size_t i = 0; i < n; i++) {
		uint8_t now = *text_at(addresses[i]);

		if (now == old || now == new)
			continue;
		problem->site = i;
		problem->why = "a safepoint in code is not what it was: a debugger's breakpoint or "
			       "another patcher is there; remove it";
		return -EBUSY;
	}
	return 0;
}

/* Those from the first on that lie in its page. Returns how many, or -errno. */
static long write_page(struct mem *mem, const uint64_t *addresses, size_t n, uint8_t new)
{
	uint8_t image[PAGE_BYTES];
	uint64_t start = addresses[0];
	size_t same = 1;

	while (same < n && (addresses[same] & PAGE_MASK) == (start & PAGE_MASK))
		same++;
	size_t bytes = (size_t)(addresses[same - 1] - start) + 1;
	memcpy(image, text_at(start), bytes);
	for (size_t i = 0; i < same; i++)
		image[addresses[i] - start] = new;
	int err = mem_write(mem, start, image, bytes);
	return err ? err : (long)same;
}

static int write_all(const uint64_t *addresses, size_t n, uint8_t new)
{
	struct mem *mem = text_mem_get();
	int err = 0;

	for (size_t i = 0; i < n && !err;) {
		long done = write_page(mem, addresses + i, n - i, new);

		if (done < 0)
			err = -EAGAIN;
		else
			i += (size_t)done;
	}
	text_mem_put();
	return err;
}

int poke_byte(const uint64_t *addresses, size_t n, uint8_t old, uint8_t new,
	      struct code_problem *problem)
{
	if (!poke_stores_are_promised())
		return -EAGAIN;
	int err = poke_lock_take(problem);
	if (err)
		return err;
	err = poke_log_is_on() ? -EAGAIN : check(addresses, n, old, new, problem);
	if (!err)
		err = write_all(addresses, n, new);
	if (!err) {
		counter_add(&poke_stats.batches, 1);
		counter_add(&poke_stats.sites, n);
		counter_add(&poke_stats.by_mem, n);
	}
	poke_lock_give();
	return err;
}
