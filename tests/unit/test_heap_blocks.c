/* SPDX-License-Identifier: MIT */
/* test_heap_blocks.c - the table of blocks of `trapline race --heap`, against a model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>

#include "agent/heap/heap_blocks.h"
#include "heap/heap_stacks.h"
#include "random.h"

#define BASE 0x7f0000000000u

static struct heap_event at(uint64_t time_ns, uint32_t tid)
{
	return (struct heap_event){ time_ns, tid, tid * 3 };
}

static int add(struct heap_blocks *b, uint64_t start, uint64_t size, uint64_t time_ns)
{
	struct heap_event event = at(time_ns, 7);

	return heap_blocks_add(b, start, size, &event);
}

static int drop(struct heap_blocks *b, uint64_t start, uint64_t time_ns)
{
	struct heap_event event = at(time_ns, 8);

	return heap_blocks_free(b, start, &event);
}

static uint64_t start_of(struct heap_blocks *b, uint64_t address)
{
	struct heap_block block;

	return heap_blocks_find(b, address, &block) ? 0 : block.start;
}

static void address_inside_is_found_and_one_behind_is_not(void **state)
{
	struct heap_blocks *b = heap_blocks_new(10);
	struct heap_block block;

	assert_int_equal(add(b, BASE + 4080, 100, 1), 0);
	assert_int_equal(start_of(b, BASE + 4080), BASE + 4080);
	assert_int_equal(start_of(b, BASE + 4179), BASE + 4080);
	assert_int_equal(start_of(b, BASE + 4180), 0);
	assert_int_equal(start_of(b, BASE + 4079), 0);
	assert_int_equal(heap_blocks_find(b, BASE + 4100, &block), 0);
	assert_int_equal(block.size, 100);
	assert_int_equal(block.allocated.tid, 7);
	assert_int_equal(block.allocated.stack, 21);
	assert_int_equal(block.freed.time_ns, 0);
}

static void large_blocks_are_found_far_behind_their_start(void **state)
{
	struct heap_blocks *b = heap_blocks_new(10);

	assert_int_equal(add(b, BASE, 65535, 1), 0);
	assert_int_equal(add(b, BASE + 0x1000000, 0x10000000, 2), 0);
	assert_int_equal(start_of(b, BASE + 65534), BASE);
	assert_int_equal(start_of(b, BASE + 65535), 0);
	assert_int_equal(start_of(b, BASE + 0x10ffffff), BASE + 0x1000000);
	assert_int_equal(start_of(b, BASE + 0x11000000), 0);
	assert_int_equal(drop(b, BASE + 0x1000000, 3), 0);
}

static void freed_block_is_known_until_another_is_there(void **state)
{
	struct heap_blocks *b = heap_blocks_new(10);
	struct heap_block block;

	add(b, BASE + 64, 64, 1);
	assert_int_equal(drop(b, BASE + 64, 2), 0);
	assert_int_equal(drop(b, BASE + 64, 3), -ENOENT);
	assert_int_equal(drop(b, BASE + 80, 3), -ENOENT);
	assert_int_equal(heap_blocks_find(b, BASE + 100, &block), 0);
	assert_int_equal(block.freed.tid, 8);
	assert_int_equal(block.freed.time_ns, 2);
	/* One that is in use is what is meant, wherever it begins. */
	add(b, BASE, 4096, 3);
	assert_int_equal(start_of(b, BASE + 100), BASE);
	drop(b, BASE, 4);
	assert_int_equal(start_of(b, BASE + 100), BASE);
	add(b, BASE + 64, 16, 5);
	assert_int_equal(heap_blocks_find(b, BASE + 64, &block), 0);
	assert_int_equal(block.size, 16);
	assert_int_equal(block.freed.time_ns, 0);
}

static void revived_block_is_in_use(void **state)
{
	struct heap_blocks *b = heap_blocks_new(10);
	struct heap_block block;

	add(b, BASE, 64, 1);
	drop(b, BASE, 2);
	heap_blocks_revive(b, BASE);
	assert_int_equal(heap_blocks_find(b, BASE, &block), 0);
	assert_int_equal(block.freed.time_ns, 0);
	assert_int_equal(drop(b, BASE, 3), 0);
}

static void full_table_refuses_and_takes_again_after_frees(void **state)
{
	struct heap_blocks *b = heap_blocks_new(0); /* one group */
	int added = 0;

	while (add(b, BASE + 32 * (uint64_t)added, 32, 1) == 0)
		added++;
	assert_int_equal(added, 16);
	assert_int_equal(add(b, BASE + 0x5000, 32, 2), -ENOSPC);
	assert_int_equal(drop(b, BASE + 32 * 5, 3), 0);
	assert_int_equal(drop(b, BASE + 32 * 9, 4), 0);
	assert_int_equal(add(b, BASE + 0x5000, 32, 5), 0);
	/* In the place of the one that was freed first. */
	assert_int_equal(start_of(b, BASE + 32 * 5), 0);
	assert_int_equal(start_of(b, BASE + 32 * 9), BASE + 32 * 9);
	assert_int_equal(start_of(b, BASE + 0x5000), BASE + 0x5000);
}

/* After a block without a row, what was freed before may have another owner by now. */
static void block_that_was_lost_hides_what_was_freed_before(void **state)
{
	struct heap_blocks *b = heap_blocks_new(10);
	uint64_t page = BASE + 0x1000;
	uint64_t i = 0;

	assert_int_equal(add(b, page - 0x100, 0x200, 1), 0);
	assert_int_equal(drop(b, page - 0x100, 2), 0);
	assert_int_equal(start_of(b, page + 0x10), page - 0x100);
	while (add(b, page + 0x200 + 4 * i, 4, 3) == 0)
		i++;
	assert_int_equal(start_of(b, page + 0x10), 0);
	/* What is in use, or is freed later, is known for certain. */
	assert_int_equal(start_of(b, page + 0x200), page + 0x200);
	assert_int_equal(drop(b, page + 0x200, 4), 0);
	assert_int_equal(start_of(b, page + 0x200), page + 0x200);
}

#define SLOTS 3000
#define SLOT_BYTES 512

/* Blocks never overlap, as of an allocator; what is in use is always found, with its size. */
static void random_blocks_are_as_the_model_says(void **state)
{
	struct heap_blocks *b = heap_blocks_new(12);
	uint32_t sizes[SLOTS] = { 0 };

	random_seed();
	for (uint64_t n = 1; n < 100000; n++) {
		uint32_t i = (uint32_t)(random_below(SLOTS));
		uint64_t start = BASE + (uint64_t)i * SLOT_BYTES;
		struct heap_block block;

		if (sizes[i]) {
			uint64_t inside = start + random_below(sizes[i]);

			assert_int_equal(heap_blocks_find(b, inside, &block), 0);
			assert_int_equal(block.start, start);
			assert_int_equal(block.size, sizes[i]);
			assert_int_equal(block.freed.time_ns, 0);
			assert_int_equal(drop(b, start, n), 0);
			sizes[i] = 0;
		} else {
			sizes[i] = 1 + (uint32_t)(random_below(SLOT_BYTES));
			assert_int_equal(add(b, start, sizes[i], n), 0);
		}
	}
}

#define THREADS 4

struct worker {
	struct heap_blocks *blocks;
	uint64_t base;
	int bad;
};

static void *churn(void *arg)
{
	struct worker *w = arg;

	for (uint64_t n = 1; n < 20000; n++) {
		uint64_t start = w->base + n % 61 * 48;
		struct heap_event event = at(n, (uint32_t)(w->base >> 12 & 0xff));
		struct heap_block block;

		if (heap_blocks_add(w->blocks, start, 48, &event))
			w->bad++;
		if (heap_blocks_find(w->blocks, start + 40, &block) ||
		    block.start != start || block.allocated.time_ns != n ||
		    block.allocated.tid != event.tid)
			w->bad++;
		if (heap_blocks_free(w->blocks, start, &event))
			w->bad++;
	}
	return NULL;
}

static void threads_find_their_own_blocks(void **state)
{
	struct heap_blocks *b = heap_blocks_new(4); /* narrow: rows change hands */
	struct worker workers[THREADS];
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ b, BASE + (uint64_t)i * 0x100000, 0 };
		pthread_create(&threads[i], NULL, churn, &workers[i]);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(workers[i].bad, 0);
	}
}

static struct heap_stacks *stacks;

static __attribute__((noipa)) uint32_t here(void)
{
	uint32_t number = heap_stacks_here(stacks, __builtin_frame_address(0));

	__asm__ volatile("" ::: "memory");
	return number;
}

static __attribute__((noipa)) uint32_t by_one(void)
{
	uint32_t number = here();

	__asm__ volatile("" ::: "memory");
	return number;
}

static __attribute__((noipa)) uint32_t by_another(void)
{
	uint32_t number = here();

	__asm__ volatile("" ::: "memory");
	return number;
}

static void stack_is_the_same_for_the_same_callers_only(void **state)
{
	uint32_t one[2];
	uint32_t another[2];

	stacks = heap_stacks_new(true);
	for (volatile int i = 0; i < 2; i++) { /* by the same calls */
		one[i] = by_one();
		another[i] = by_another();
	}
	assert_int_not_equal(one[0], 0);
	assert_int_equal(one[0], one[1]);
	assert_int_equal(another[0], another[1]);
	assert_int_not_equal(one[0], another[0]);
	const struct heap_stack *s = heap_stacks_get(stacks, one[0]);
	assert_non_null(s);
	assert_in_range(s->count, 3, RACE_HEAP_FRAMES);
	assert_in_range(s->frames[0] - (uintptr_t)by_one, 1, 64);
	assert_null(heap_stacks_get(stacks, 0));
	assert_null(heap_stacks_get(stacks, UINT32_MAX));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(address_inside_is_found_and_one_behind_is_not),
		cmocka_unit_test(large_blocks_are_found_far_behind_their_start),
		cmocka_unit_test(freed_block_is_known_until_another_is_there),
		cmocka_unit_test(revived_block_is_in_use),
		cmocka_unit_test(full_table_refuses_and_takes_again_after_frees),
		cmocka_unit_test(block_that_was_lost_hides_what_was_freed_before),
		cmocka_unit_test(random_blocks_are_as_the_model_says),
		cmocka_unit_test(threads_find_their_own_blocks),
		cmocka_unit_test(stack_is_the_same_for_the_same_callers_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
