/* SPDX-License-Identifier: MIT */
/* test_race_group.c - one variable between two functions is one report; no other races are put together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "report/race/race_group.h"
#include "report/race/race_report.h"

static struct race_region *region;
static struct race_report *report;
static uint64_t next_place;

static int setup(void **state)
{
	region = calloc(1, sizeof(*region));
	next_place = 0x400;
	return region ? race_report_open(region, &report) : -1;
}

static int teardown(void **state)
{
	race_report_close(report);
	free(region);
	return 0;
}

/* A race of grade B, of its own pair of places, seen once. */
static struct race_view *race_between(const char *first, const char *second, const char *variable)
{
	static const unsigned char load[] = { 0x8b, 0x07, 0x01, 0xd0, 0xc3 };
	static const unsigned char store[] = { 0x89, 0x37, 0x90, 0x90, 0xc3 };
	struct race_record record = { .address = 0x1000, .len = 4, .flags = RACE_CHANGED,
				      .pair = RACE_PAIRS, .pid = 7 };
	struct race_side *sides[] = { &record.first, &record.second };
	struct race_view *v;

	for (int i = 0; i < 2; i++) {
		sides[i]->access = i ? RACE_WRITE : RACE_READ;
		sides[i]->flags = RACE_DECODED;
		sides[i]->address = 0x1000;
		sides[i]->size = 4;
		sides[i]->frame_count = 1;
		sides[i]->frames[0] = next_place++;
		sides[i]->code_bytes = sizeof(load);
		sides[i]->length = 2;
		memcpy(sides[i]->code, i ? store : load, sizeof(load));
	}
	record.address += next_place * 64; /* another one each time */
	assert_int_equal(race_report_add(report, &record, &v), 0);
	assert_int_equal(v->grade, RACE_GRADE_B);
	snprintf(v->first.function, sizeof(v->first.function), "%s", first);
	snprintf(v->second.function, sizeof(v->second.function), "%s", second);
	snprintf(v->variable, sizeof(v->variable), "%s", variable);
	return v;
}

static size_t count_shown(enum race_grade grade_max)
{
	size_t verdicts[RACE_VERDICTS];

	race_report_verdicts(report, grade_max, verdicts);
	return verdicts[RACE_SHOWN];
}

static void parts_of_a_variable_are_one_report(void **state)
{
	struct race_view *head = race_between("reader", "writer", "table+0x10");
	struct race_view *swapped = race_between("writer", "reader", "table");
	struct race_view *third = race_between("reader", "writer", "table+0x20");
	uint64_t times;

	race_group_all(report, RACE_GRADE_B);
	assert_null(head->head);
	assert_ptr_equal(swapped->head, head);
	assert_ptr_equal(third->head, head);
	assert_int_equal(race_group_others(report, head, &times), 2);
	assert_int_equal(times, 3);
	assert_int_equal(count_shown(RACE_GRADE_B), 1);
}

static void other_variables_and_functions_are_others(void **state)
{
	race_between("reader", "writer", "table");
	race_between("reader", "writer", "tables");
	race_between("reader", "writer", "tab");
	race_between("reader", "reader", "table");
	race_between("writer", "writer", "table");
	race_between("reader", "closer", "table");
	race_between("", "", "table");
	race_between("", "", "table");
	race_between("reader", "writer", "");
	race_between("reader", "writer", "");
	race_group_all(report, RACE_GRADE_B);
	assert_int_equal(count_shown(RACE_GRADE_B), 10);
}

static void the_same_address_or_allocation_is_one_variable(void **state)
{
	struct race_view *one = race_between("reader", "writer", "");
	struct race_view *two = race_between("reader", "writer", "");
	struct race_view *three = race_between("reader", "writer", "");
	struct race_view *four = race_between("reader", "writer", "");

	two->record.address = one->record.address;
	for (int i = 0; i < 2; i++) {
		struct race_record *record = i ? &four->record : &three->record;

		record->has_heap = 1;
		record->heap.allocated.frame_count = 4 + (uint32_t)i;
		for (uint64_t k = 0; k < 3; k++)
			record->heap.allocated.frames[k] = 0x500 + k;
	}
	race_group_all(report, RACE_GRADE_B);
	assert_ptr_equal(two->head, one);
	assert_null(three->head);
	assert_ptr_equal(four->head, three);
	/* In another run the same offset in the page is the same variable. */
	two->record.pid++;
	two->record.address += 0x5000;
	race_group_all(report, RACE_GRADE_B);
	assert_ptr_equal(two->head, one);
	two->record.address += 0x40;
	four->record.heap.allocated.frames[2]++;
	race_group_all(report, RACE_GRADE_B);
	assert_int_equal(count_shown(RACE_GRADE_B), 4);
}

static void the_best_grade_is_the_head_and_a_better_one_is_told(void **state)
{
	struct race_view *likely = race_between("reader", "writer", "table");
	struct race_view *definite = race_between("reader", "writer", "table");

	definite->grade = RACE_GRADE_A;
	race_group_all(report, RACE_GRADE_B);
	assert_ptr_equal(likely->head, definite);
	/* As it goes in text: the likely one was told before the definite one came. */
	likely->head = NULL;
	definite->is_told = false;
	assert_false(race_group_join(report, definite, RACE_GRADE_B));
}

static void a_head_that_is_not_shown_gives_its_races_back(void **state)
{
	struct race_view *head = race_between("reader", "writer", "table");
	struct race_view *other = race_between("reader", "writer", "table");

	race_group_all(report, RACE_GRADE_B);
	assert_ptr_equal(other->head, head);
	head->grade = RACE_GRADE_C; /* its variable turned out to be atomic */
	race_group_release(report, RACE_GRADE_B);
	assert_null(other->head);
	assert_false(other->is_told);
	assert_int_equal(count_shown(RACE_GRADE_B), 1);
}

static void each_race_is_told_when_asked_for(void **state)
{
	struct race_policy policy = { .is_each = true };

	race_report_set_policy(report, &policy);
	race_between("reader", "writer", "table");
	race_between("reader", "writer", "table");
	race_group_all(report, RACE_GRADE_B);
	assert_int_equal(count_shown(RACE_GRADE_B), 2);
}

static void the_json_of_a_head_names_the_others(void **state)
{
	struct race_view *head = race_between("reader", "writer", "table");
	struct race_view *other = race_between("writer", "reader", "table+8");
	char *line = NULL;
	size_t n;
	FILE *f = open_memstream(&line, &n);

	race_group_all(report, RACE_GRADE_B);
	race_print_json(report, head, f);
	fclose(f);
	json_t *j = json_loads(line, 0, NULL);
	json_t *also = json_object_get(j, "also");
	assert_int_equal(json_array_size(also), 1);
	json_t *one = json_array_get(also, 0);
	assert_string_equal(json_string_value(json_object_get(one, "fingerprint")),
			    other->fingerprint);
	assert_string_equal(json_string_value(json_object_get(json_object_get(one, "first"),
							      "function")),
			    "writer");
	json_decref(j);
	free(line);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(parts_of_a_variable_are_one_report),
		TEST(other_variables_and_functions_are_others),
		TEST(the_same_address_or_allocation_is_one_variable),
		TEST(the_best_grade_is_the_head_and_a_better_one_is_told),
		TEST(a_head_that_is_not_shown_gives_its_races_back),
		TEST(each_race_is_told_when_asked_for),
		TEST(the_json_of_a_head_names_the_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
