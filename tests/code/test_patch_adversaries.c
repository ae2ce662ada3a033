/* SPDX-License-Identifier: MIT */
/* test_patch_adversaries.c - what programs do to patches: a heap in the way of a jump, and more. */
#include "patches.h"

#include <sys/mman.h>

/* ---- where a jump lands ---- */

/* push %r15; push %r14; push %r13; mov $5, %eax; pop the three; ret: a prologue of many functions. */
static const uint8_t prologue[] = { 0x41, 0x57, 0x41, 0x56, 0x41, 0x55, 0xb8, 5,	  0,
				  0,	0,    0x41, 0x5d, 0x41, 0x5e, 0x41, 0x5f, 0xc3 };
/* The jump keeps all bytes of its distance but the lowest. */
#define PUSHES_LEAD_TO 0x41564100ull

/* The function is put so that its jump lands so far above the heap. */
static void patch_below_the_heap(uint64_t above)
{
	uint64_t page = ((uint64_t)(uintptr_t)sbrk(0) + above - PUSHES_LEAD_TO) & ~0xfffull;
	void *at = mmap((void *)(uintptr_t)page, 4096, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	struct trapline_patch_function function = { .name = "pushes",
						    .old_address = page,
						    .old_bytes = sizeof(prologue),
						    .new_address = ADDR(new_sleeper) };
	struct trapline_patch *patch = NULL;
	int (*pushed)(void) = (int (*)(void))at;

	assert_ptr_equal(at, (void *)(uintptr_t)page);
	memcpy(at, prologue, sizeof(prologue));
	assert_int_equal(mprotect(at, 4096, PROT_READ | PROT_EXEC), 0);
	assert_int_equal(pushed(), 5);
	check(trapline_patch(target, &function, 1, NULL, &patch), "patch");
	assert_int_equal(pushed(), 7);
	check(trapline_patch_undo(patch, 0), "undo");
	assert_int_equal(pushed(), 5);
	assert_memory_equal(at, prologue, sizeof(prologue));
	/* The heap goes on: there, and behind what is in its way. */
	void *blocks[64];
	for (int i = 0; i < 64; i++) {
		blocks[i] = malloc(100000);
		assert_non_null(blocks[i]);
		memset(blocks[i], 1, 100000);
	}
	for (int i = 0; i < 64; i++)
		free(blocks[i]);
	munmap(at, 4096);
}

static void a_jump_may_land_where_the_heap_would_grow(void **state)
{
	patch_below_the_heap(400ull << 20);
	patch_below_the_heap(40ull << 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_jump_may_land_where_the_heap_would_grow, set_up,
						tear_down),
	};

	return cmocka_run_group_tests_name("patch_adversaries", tests, NULL, NULL);
}
