/* SPDX-License-Identifier: MIT */
/*
 * test_race_region.c - what reads the memory that a run shares relies on nothing that a process can
 * write there: no end of a text, no number of objects.
 */
#include "../kernel/common.h"

#include "report/race/race_report.h"
#include "report/race/race_totals.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <time.h>

#define PAGE 4096u

/* Its last byte is the last one before a page that cannot be read. */
static struct race_region *map_region(int fill)
{
	size_t bytes = (sizeof(struct race_region) + PAGE - 1) / PAGE * PAGE;
	char *memory = mmap(NULL, bytes + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	assert_int_equal(mprotect(memory + bytes, PAGE, PROT_NONE), 0);
	struct race_region *region = (void *)(memory + bytes - sizeof(struct race_region));
	memset((char *)region + SHARE_HEAD_BYTES, fill, sizeof(*region) - SHARE_HEAD_BYTES);
	return region;
}

static void a_text_without_an_end_is_read_to_the_end_of_its_row(void **state)
{
	struct race_region *region = map_region('A');
	struct race_totals totals = { 0 };

	race_totals(region, &totals);
	assert_false(totals.has_openmp);
	memcpy(region->files[7].path, "/libgomp.so", 11);
	race_totals(region, &totals);
	assert_true(totals.has_openmp);
}

static void every_byte_may_be_the_highest(void **state)
{
	struct race_region *region = map_region(0xff);
	struct race_totals totals = { 0 };
	struct race_coverage coverage;
	struct race_record record;
	uint64_t torn = 0;

	race_totals(region, &totals);
	race_coverage(region, 1, &coverage);
	assert_true(race_live_stalls(region) != 0);
	region->write_at = 5;
	for (int i = 0; i < 10; i++)
		race_read(region, &record, &torn);
	race_give_back_rows(region, &totals);
}

static void name_objects(struct race_region *region, uint32_t count)
{
	Dl_info libc;

	assert_true(dladdr((void *)(uintptr_t)getpid, &libc) != 0);
	for (uint32_t i = 1; i <= count; i++) {
		region->files[i].ready = 1;
		region->files[i].is_included = 1;
		snprintf(region->files[i].path, sizeof(region->files[i].path), "%s",
			 libc.dli_fname);
	}
}

static double cpu_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Fifty times as many objects must not take fifty times as long. */
static void objects_that_are_many_are_read_in_part(void **state)
{
	const uint32_t counts[] = { 8, 400 };
	struct race_region *region = map_region(0);
	double took[2];

	for (int i = 0; i < 2; i++) {
		struct race_totals totals = { 0 };
		double start = cpu_seconds();

		name_objects(region, counts[i]);
		race_count_sites(region, 0, &totals);
		took[i] = cpu_seconds() - start;
		assert_int_equal(totals.objects, counts[i]);
		assert_true(totals.sites_there > 0);
	}
	print_message("# %.3f s for 8 objects, %.3f s for 400\n", took[0], took[1]);
	assert_true(took[1] < 25 * took[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_text_without_an_end_is_read_to_the_end_of_its_row),
		cmocka_unit_test(every_byte_may_be_the_highest),
		cmocka_unit_test(objects_that_are_many_are_read_in_part),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
