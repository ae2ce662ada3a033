/* SPDX-License-Identifier: MIT */
/* test_unwind_index.c - rows of .eh_frame_hdr: of a made-up one, and of the objects of this process, as libgcc finds them. */
#include "code/unwind/unwind_index.h"

#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define ROWS 5

struct bases {
	void *text;
	void *data;
	void *function;
};
const void *_Unwind_Find_FDE(void *pc, struct bases *bases);

static struct unwind_index *make_index(void)
{
	static const int32_t starts[ROWS] = { -4096, -16, 0, 1, 65536 };
	struct unwind_index *index = malloc(sizeof(*index) + ROWS * sizeof(index->rows[0]));

	assert_non_null(index);
	*index = (struct unwind_index){ 1, 0x1b, 0x03, 0x3b, 0, ROWS };
	for (int i = 0; i < ROWS; i++)
		index->rows[i] = (struct unwind_row){ starts[i], i };
	return index;
}

static void an_address_has_the_last_row_that_is_not_behind_it(void **state)
{
	struct unwind_index *index = make_index();
	const uint64_t at = (uintptr_t)index;

	assert_null(unwind_index_find(index, at - 4097));
	assert_int_equal(unwind_index_find(index, at - 4096)->entry, 0);
	assert_int_equal(unwind_index_find(index, at - 17)->entry, 0);
	assert_int_equal(unwind_index_find(index, at - 16)->entry, 1);
	assert_int_equal(unwind_index_find(index, at)->entry, 2);
	assert_int_equal(unwind_index_find(index, at + 1)->entry, 3);
	assert_int_equal(unwind_index_find(index, at + 65535)->entry, 3);
	assert_int_equal(unwind_index_find(index, at + 65536)->entry, 4);
	assert_int_equal(unwind_index_find(index, UINT64_MAX / 2)->entry, 4);
	assert_int_equal(unwind_row_start(index, &index->rows[0]), at - 4096);
	index->count = 0;
	assert_null(unwind_index_find(index, at));
	free(index);
}

static void an_index_of_another_form_has_no_rows(void **state)
{
	static const uint8_t other[][4] = {
		{ 2, 0x1b, 0x03, 0x3b }, { 1, 0xff, 0x03, 0x3b }, { 1, 0x1c, 0x03, 0x3b },
		{ 1, 0x1b, 0xff, 0x3b }, { 1, 0x1b, 0x03, 0xff }, { 1, 0x1b, 0x03, 0x3c },
	};
	struct unwind_index *index = make_index();

	for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
		index->version = other[i][0];
		index->pointer_encoding = other[i][1];
		index->count_encoding = other[i][2];
		index->row_encoding = other[i][3];
		assert_null(unwind_index_find(index, (uintptr_t)index));
	}
	free(index);
}

static int check_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	const struct unwind_index *index = NULL;
	size_t *rows = arg;

	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME)
			index = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	if (!index || !unwind_index_is_sorted(index))
		return 0;
	for (uint32_t i = 0; i < index->count; i++) {
		const uint64_t start = unwind_row_start(index, &index->rows[i]);
		struct bases bases = { 0 };
		const void *entry = _Unwind_Find_FDE((void *)(uintptr_t)start, &bases);

		assert_ptr_equal(unwind_index_find(index, start), &index->rows[i]);
		assert_ptr_equal(unwind_index_find(index, start - 1),
				 i ? &index->rows[i - 1] : NULL);
		/* libgcc looks at the length too. */
		if (entry)
			assert_ptr_equal(entry, (const uint8_t *)index + index->rows[i].entry);
		*rows += entry != NULL;
	}
	return 0;
}

static void each_function_of_this_process_is_found_as_libgcc_finds_it(void **state)
{
	size_t rows = 0;

	dl_iterate_phdr(check_object, &rows);
	assert_true(rows > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_address_has_the_last_row_that_is_not_behind_it),
		cmocka_unit_test(an_index_of_another_form_has_no_rows),
		cmocka_unit_test(each_function_of_this_process_is_found_as_libgcc_finds_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
