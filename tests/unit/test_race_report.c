/* SPDX-License-Identifier: MIT */
/*
 * test_race_report.c - grades from instructions alone, and records that come out of a ring.
 *
 * The code is what gcc makes of the C beside it.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "race/race_line.h"
#include "record/race_judge.h"
#include "record/race_region.h"
#include "report/race/race_report.h"
#include "report/race/race_totals.h"

static struct race_region *region;

static int setup(void **state)
{
	region = calloc(1, sizeof(*region));
	return region ? 0 : -1;
}

static int teardown(void **state)
{
	free(region);
	return 0;
}

/* One side: the instruction stands at `at` in the code. */
static void set_side(struct race_side *side, unsigned int access, const void *code, size_t n,
		     size_t at, unsigned int length)
{
	memset(side, 0, sizeof(*side));
	side->access = (uint8_t)access;
	side->flags = RACE_DECODED;
	side->address = 0x1000;
	side->size = 4;
	side->frame_count = 1;
	side->code_before = (uint8_t)at;
	side->code_bytes = (uint8_t)n;
	side->length = (uint8_t)length;
	memcpy(side->code, code, n);
}

static const unsigned char plain_load[] = {0x8b, 0x07, 0x01, 0xd0, 0xc3};  /* mov (%rdi),%eax */
static const unsigned char plain_store[] = {0x89, 0x37, 0x90, 0x90, 0xc3}; /* mov %esi,(%rdi) */

static void set_plain(struct race_record *record)
{
	memset(record, 0, sizeof(*record));
	set_side(&record->first, RACE_READ, plain_load, sizeof(plain_load), 0, 2);
	set_side(&record->second, RACE_WRITE, plain_store, sizeof(plain_store), 0, 2);
	record->len = 4;
	record->flags = RACE_CHANGED;
}

static enum race_grade grade_of(const struct race_record *record)
{
	struct race_report *report;
	struct race_view *view;

	assert_int_equal(race_report_open(region, &report), 0);
	assert_int_equal(race_report_add(report, record, &view), 0);
	enum race_grade grade = view->grade;
	assert_non_null(view->why);
	race_report_close(report);
	return grade;
}

static void plain_words_with_a_change_are_b(void **state)
{
	struct race_record record;

	set_plain(&record);
	assert_int_equal(grade_of(&record), RACE_GRADE_B);
}

static void words_in_shared_memory_are_c(void **state)
{
	struct race_record record;

	set_plain(&record);
	record.memory = RACE_MEMORY_SHARED;
	assert_int_equal(grade_of(&record), RACE_GRADE_C);
	/* No atomic instruction is as wide as that. */
	record.first.size = 16;
	record.second.size = 16;
	assert_int_equal(grade_of(&record), RACE_GRADE_A);
}

static void an_unchanged_value_is_c(void **state)
{
	struct race_record record;

	set_plain(&record);
	record.flags = 0;
	assert_int_equal(grade_of(&record), RACE_GRADE_C);
	/* What the first is about to write is not known: the second, a read, changes nothing. */
	set_side(&record.first, RACE_WRITE, plain_store, sizeof(plain_store), 0, 2);
	set_side(&record.second, RACE_READ, plain_load, sizeof(plain_load), 0, 2);
	assert_int_equal(grade_of(&record), RACE_GRADE_B);
	/* Two stores of what is there already are a habit; of two values the later one stays. */
	set_side(&record.second, RACE_WRITE, plain_store, sizeof(plain_store), 0, 2);
	record.first.flags |= RACE_STORES_SAME;
	assert_int_equal(grade_of(&record), RACE_GRADE_C);
	assert_int_equal(race_judge(&record, NULL, NULL).grade, RACE_GRADE_C);
	record.first.flags ^= RACE_STORES_SAME | RACE_STORES_OTHER;
	assert_int_equal(grade_of(&record), RACE_GRADE_B);
	assert_int_equal(race_judge(&record, NULL, NULL).grade, RACE_GRADE_B);
}

static void unaligned_or_wide_is_a(void **state)
{
	struct race_record record;

	set_plain(&record);
	record.first.address = record.second.address = 0x1002;
	assert_int_equal(grade_of(&record), RACE_GRADE_A);
	set_plain(&record);
	record.first.size = record.second.size = 16;
	assert_int_equal(grade_of(&record), RACE_GRADE_A);
	set_plain(&record);
	record.second.flags |= RACE_BLOCK;
	assert_int_equal(grade_of(&record), RACE_GRADE_A);
}

static void parts_of_each_other_are_a(void **state)
{
	struct race_record record;

	set_plain(&record);
	record.first.size = 8;
	assert_int_equal(grade_of(&record), RACE_GRADE_A);
}

static void increments_without_lock_are_a(void **state)
{
	static const unsigned char increment[] = {0x83, 0x07, 0x01, 0xc3}; /* addl $1,(%rdi) */
	struct race_record record;

	set_plain(&record);
	set_side(&record.second, RACE_READ_WRITE, increment, sizeof(increment), 0, 3);
	assert_int_equal(grade_of(&record), RACE_GRADE_A);
	/* Even where locked instructions are used on it elsewhere. */
	record.flags |= RACE_ATOMIC_SEEN;
	assert_int_equal(grade_of(&record), RACE_GRADE_A);
}

static void locked_partners_make_it_c(void **state)
{
	struct race_record record;

	set_plain(&record);
	record.flags |= RACE_ATOMIC_SEEN;
	assert_int_equal(grade_of(&record), RACE_GRADE_C);
}

/* lock addl $1,(%rdi); ret */
static const unsigned char locked_add[] = {0xf0, 0x83, 0x07, 0x01, 0xc3};

static void a_lost_update_is_a(void **state)
{
	static const unsigned char increment[] = {0x83, 0x07, 0x01, 0xc3}; /* addl $1,(%rdi) */
	struct race_record record;

	set_plain(&record);
	set_side(&record.first, RACE_READ_WRITE, increment, sizeof(increment), 0, 3);
	set_side(&record.second, RACE_READ_WRITE, locked_add, sizeof(locked_add), 0, 4);
	record.second.flags |= RACE_LOCKED;
	record.flags |= RACE_ATOMIC_SEEN;
	assert_int_equal(grade_of(&record), RACE_GRADE_A);
	assert_int_equal(race_judge(&record, NULL, NULL).grade, RACE_GRADE_A);
	/* It changed nothing, as where 0 is added to read, or another part of it. */
	record.flags = RACE_ATOMIC_SEEN;
	assert_int_equal(grade_of(&record), RACE_GRADE_C);
	assert_int_equal(race_judge(&record, NULL, NULL).grade, RACE_GRADE_C);
	record.flags = RACE_CHANGED;
	record.second.size = 8;
	assert_int_equal(grade_of(&record), RACE_GRADE_C);
	assert_int_equal(race_judge(&record, NULL, NULL).grade, RACE_GRADE_C);
}

/* A lock is let go by such a store, an atomic load is such a load; unaligned or not. */
static void other_accesses_beside_locked_ones_are_c(void **state)
{
	struct race_record record;

	set_plain(&record);
	set_side(&record.second, RACE_READ_WRITE, locked_add, sizeof(locked_add), 0, 4);
	record.second.flags |= RACE_LOCKED;
	assert_int_equal(grade_of(&record), RACE_GRADE_C);
	assert_int_equal(race_judge(&record, NULL, NULL).grade, RACE_GRADE_C);
	set_side(&record.first, RACE_WRITE, plain_store, sizeof(plain_store), 0, 2);
	assert_int_equal(grade_of(&record), RACE_GRADE_C);
	assert_int_equal(race_judge(&record, NULL, NULL).grade, RACE_GRADE_C);
	record.first.address = record.second.address = 0x1002;
	assert_int_equal(grade_of(&record), RACE_GRADE_C);
}

static void waiting_loops_are_c(void **state)
{
	/* while (!*p); */
	static const unsigned char tight[] = {0x8b, 0x07, 0x85, 0xc0, 0x74, 0xfa, 0xc3};
	/* while (!*p) pause; the test is at the end: jmp 1f; 0: pause; 1: mov; test; je 0b */
	static const unsigned char with_pause[] = {0xeb, 0x02, 0xf3, 0x90, 0x8b, 0x07,
						   0x85, 0xc0, 0x74, 0xf8, 0xc3};
	/* -O0: 0: mov -8(%rbp),%rax; mov (%rax),%eax; mov %eax,-12(%rbp); cmpl $0,-12(%rbp); je 0b */
	static const unsigned char from_frame[] = {0x48, 0x8b, 0x45, 0xf8, 0x8b, 0x00, 0x89, 0x45, 0xf4,
						   0x83, 0x7d, 0xf4, 0x00, 0x74, 0xf1, 0xc3};
	/* 0: the value of the round before is compared at the head:
	 * cmpl $8,-12(%rbp); jb out; mov (%rdi),%eax; mov %eax,-12(%rbp); jmp 0b */
	static const unsigned char at_head[] = {0x83, 0x7d, 0xf4, 0x08, 0x72, 0x07, 0x8b, 0x07, 0x89,
						0x45, 0xf4, 0xeb, 0xf3, 0xc3};
	/* 0: mov (%rdi),%eax; cmp $3,%eax; sete %al;
	 * xor $1,%eax; test %al,%al; jne 0b */
	static const unsigned char by_set[] = {0x8b, 0x07, 0x83, 0xf8, 0x03, 0x0f, 0x94, 0xc0, 0x83,
					       0xf0, 0x01, 0x84, 0xc0, 0x75, 0xf1, 0xc3};
	struct race_record record;

	set_plain(&record);
	set_side(&record.first, RACE_READ, by_set, sizeof(by_set), 0, 2);
	assert_int_equal(grade_of(&record), RACE_GRADE_C);
	set_side(&record.first, RACE_READ, at_head, sizeof(at_head), 6, 2);
	assert_int_equal(grade_of(&record), RACE_GRADE_C);
	set_side(&record.first, RACE_READ, tight, sizeof(tight), 0, 2);
	assert_int_equal(grade_of(&record), RACE_GRADE_C);
	set_side(&record.first, RACE_READ, with_pause, sizeof(with_pause), 4, 2);
	assert_int_equal(grade_of(&record), RACE_GRADE_C);
	set_side(&record.first, RACE_READ, from_frame, sizeof(from_frame), 4, 2);
	assert_int_equal(grade_of(&record), RACE_GRADE_C);
}

static void loops_over_data_are_not_waiting(void **state)
{
	/* do sum += *p++; while (p != end): 0: add (%rdi),%eax; add $4,%rdi; cmp %rsi,%rdi; jne 0b */
	static const unsigned char sum[] = {0x03, 0x07, 0x48, 0x83, 0xc7, 0x04,
					    0x48, 0x39, 0xf7, 0x75, 0xf5, 0xc3};
	/* -O0: 0: mov -8(%rbp),%rax; mov (%rax),%eax; addq $4,-8(%rbp); cmp %eax,-12(%rbp); jne 0b */
	static const unsigned char frame_moves[] = {0x48, 0x8b, 0x45, 0xf8, 0x8b, 0x00,
						    0x48, 0x83, 0x45, 0xf8, 0x04, 0x39,
						    0x45, 0xf4, 0x75, 0xf0, 0xc3};
	/* do *q += 1; while (!*p): it works while it waits. */
	static const unsigned char works[] = {0x8b, 0x07, 0x83, 0x06, 0x01,
					      0x85, 0xc0, 0x74, 0xf7, 0xc3};
	/* do sum += get()->n; while (--i): the address is another one, perhaps, and it is summed up. */
	static const unsigned char from_call[] = {0xe8, 0, 0, 0, 0, 0x8b, 0x00, 0x83, 0xeb, 0x01,
						  0x75, 0xf4, 0xc3};
	static const unsigned char summed[] = {0x03, 0x07, 0x83, 0xeb, 0x01, 0x75, 0xf9, 0xc3};
	/* -O0: 0: mov -8(%rbp),%rax; mov (%rax),%edx; mov -16(%rbp),%eax; add %edx,%eax;
	 * mov %eax,-16(%rbp); addl $1,-12(%rbp); cmpl $9,-12(%rbp); jle 0b */
	static const unsigned char frame_sum[] = {0x48, 0x8b, 0x45, 0xf8, 0x8b, 0x10, 0x8b, 0x45,
						  0xf0, 0x01, 0xd0, 0x89, 0x45, 0xf0, 0x83, 0x45,
						  0xf4, 0x01, 0x83, 0x7d, 0xf4, 0x09, 0x7e, 0xe8,
						  0xc3};
	/* if (*p) return: no loop at all. */
	static const unsigned char once[] = {0x8b, 0x07, 0x85, 0xc0, 0x74, 0x01, 0xc3, 0xc3};
	struct race_record record;

	set_plain(&record);
	set_side(&record.first, RACE_READ, sum, sizeof(sum), 0, 2);
	assert_int_equal(grade_of(&record), RACE_GRADE_B);
	set_side(&record.first, RACE_READ, frame_moves, sizeof(frame_moves), 4, 2);
	assert_int_equal(grade_of(&record), RACE_GRADE_B);
	set_side(&record.first, RACE_READ, works, sizeof(works), 0, 2);
	assert_int_equal(grade_of(&record), RACE_GRADE_B);
	set_side(&record.first, RACE_READ, once, sizeof(once), 0, 2);
	assert_int_equal(grade_of(&record), RACE_GRADE_B);
	set_side(&record.first, RACE_READ, from_call, sizeof(from_call), 5, 2);
	assert_int_equal(grade_of(&record), RACE_GRADE_B);
	set_side(&record.first, RACE_READ, summed, sizeof(summed), 0, 2);
	assert_int_equal(grade_of(&record), RACE_GRADE_B);
	set_side(&record.first, RACE_READ, frame_sum, sizeof(frame_sum), 4, 2);
	assert_int_equal(grade_of(&record), RACE_GRADE_B);
}

static void stores_before_a_fence_are_c(void **state)
{
	/* mov %esi,(%rdi); mfence */
	static const unsigned char fence[] = {0x89, 0x37, 0x0f, 0xae, 0xf0, 0xc3};
	/* mov %esi,(%rdi); lock orq $0,(%rsp) */
	static const unsigned char locked[] = {0x89, 0x37, 0xf0, 0x48, 0x83, 0x0c, 0x24, 0x00, 0xc3};
	struct race_record record;

	set_plain(&record);
	set_side(&record.second, RACE_WRITE, fence, sizeof(fence), 0, 2);
	assert_int_equal(grade_of(&record), RACE_GRADE_C);
	set_side(&record.second, RACE_WRITE, locked, sizeof(locked), 0, 2);
	assert_int_equal(grade_of(&record), RACE_GRADE_C);
}

static void unknown_origin_is_never_a(void **state)
{
	struct race_record record;

	set_plain(&record);
	memset(&record.second, 0, sizeof(record.second));
	record.flags |= RACE_UNKNOWN_ORIGIN;
	record.first.address = 0x1002;
	assert_int_equal(grade_of(&record), RACE_GRADE_B);
	assert_int_equal(race_judge(&record, NULL, NULL).grade, RACE_GRADE_B);
	record.flags |= RACE_SHARED_MAPPING;
	assert_int_equal(grade_of(&record), RACE_GRADE_C);
	assert_int_equal(race_judge(&record, NULL, NULL).grade, RACE_GRADE_C);
}

/* The lines of frames in the text of a race with three frames on each side. */
static size_t frame_lines(const struct race_record *record, size_t frames_max)
{
	struct race_policy policy = { .frames_max = frames_max };
	struct race_report *report;
	struct race_view *view;
	char *text = NULL;
	size_t n = 0;
	size_t lines = 0;
	FILE *f = open_memstream(&text, &n);

	assert_int_equal(race_report_open(region, &report), 0);
	race_report_set_policy(report, &policy);
	assert_int_equal(race_report_add(report, record, &view), 0);
	race_print_text(report, view, false, f);
	fclose(f);
	for (const char *c = text; (c = strstr(c, "\n    #")); c++)
		lines++;
	race_report_close(report);
	free(text);
	return lines;
}

static void stacks_are_cut_to_the_number_of_frames(void **state)
{
	struct race_record record;

	set_plain(&record);
	record.first.frame_count = record.second.frame_count = 3;
	assert_int_equal(frame_lines(&record, 0), 6);
	assert_int_equal(frame_lines(&record, 1), 2);
	assert_int_equal(frame_lines(&record, 2), 4);
	assert_int_equal(frame_lines(&record, 9), 6);
}

/* The race as the report prints it, parsed; or as the library does. */
static json_t *object_of(const struct race_record *record, bool by_library)
{
	static char line[32768];
	struct race_judgement judgement = race_judge(record, NULL, NULL);
	struct race_report *report;
	struct race_view *view;
	FILE *f;

	if (by_library) {
		size_t n = race_report_line(region, record, judgement, line, sizeof(line));
		assert_int_equal(n, strlen(line));
		return json_loads(line, 0, NULL);
	}
	assert_int_equal(race_report_open(region, &report), 0);
	assert_int_equal(race_report_add(report, record, &view), 0);
	f = fmemopen(line, sizeof(line), "w");
	race_print_json(report, view, f);
	fclose(f);
	race_report_close(report);
	return json_loads(line, 0, NULL);
}

/* Each member of one is in the other; what both say is the same. `more`: a member of `some` alone. */
static void assert_same_members(json_t *some, json_t *others, const char *more)
{
	const char *name;
	json_t *value;

	json_object_foreach(some, name, value)
	{
		json_t *other = json_object_get(others, name);

		if (more && !strcmp(name, more)) {
			assert_null(other);
			continue;
		}
		if (!other)
			fail_msg("%s is in one of the objects alone", name);
		if (json_is_object(value) && json_is_object(other))
			assert_same_members(value, other, NULL);
		else if (json_is_array(value) && json_array_size(value))
			assert_same_members(json_array_get(value, 0), json_array_get(other, 0), NULL);
		else if (!json_is_null(value) && !json_is_null(other) && !json_equal(value, other))
			fail_msg("%s has two values", name);
	}
}

static void the_library_prints_the_members_of_the_report(void **state)
{
	struct race_record record;

	for (int is_unknown = 0; is_unknown < 2; is_unknown++) {
		set_plain(&record);
		strcpy(record.first.thread, "one \"thread\"");
		record.first.frame_count = 3;
		record.new_value = UINT64_MAX;
		record.memory = RACE_MEMORY_STACK;
		if (is_unknown) {
			memset(&record.second, 0, sizeof(record.second));
			record.flags |= RACE_UNKNOWN_ORIGIN;
		}
		json_t *report = object_of(&record, false);
		json_t *library = object_of(&record, true);
		assert_non_null(report);
		assert_non_null(library);
		assert_same_members(report, library, "also");
		assert_same_members(library, report, "pair");
		assert_string_equal(json_string_value(json_object_get(library, "memory")), "stack");
		assert_true(json_is_null(json_object_get(library, "fingerprint")));
		json_decref(report);
		json_decref(library);
	}
}

static void a_file_is_named_where_it_is_known(void **state)
{
	struct race_record record;

	strcpy(region->files[1].path, "/no/such/libone.so");
	region->files[1].ready = 1;
	set_plain(&record);
	record.first.frames[0] = 1ull << RACE_PLACE_BITS | 0x100;
	json_t *library = object_of(&record, true);
	json_t *first = json_object_get(library, "first");
	json_t *second = json_object_get(library, "second");
	assert_string_equal(json_string_value(json_object_get(first, "module")), "libone.so");
	assert_string_equal(json_string_value(json_object_get(first, "module_path")),
			    "/no/such/libone.so");
	assert_true(json_is_true(json_object_get(first, "decoded")));
	assert_true(json_is_null(json_object_get(second, "module")));
	assert_true(json_is_null(json_object_get(second, "module_path")));
	json_decref(library);
}

static void records_of_any_content_are_survived(void **state)
{
	const char *given = getenv("TRAPLINE_SEED");
	unsigned int seed = given ? (unsigned int)strtoul(given, NULL, 0) : (unsigned int)time(NULL);
	struct race_report *report;
	struct race_record record;
	struct race_view *view;
	FILE *null = fopen("/dev/null", "w");

	print_message("# TRAPLINE_SEED=%u\n", seed);
	srandom(seed);
	assert_int_equal(race_report_open(region, &report), 0);
	for (int n = 0; n < 2000; n++) {
		for (size_t i = 0; i < sizeof(record); i++)
			((unsigned char *)&record)[i] = (unsigned char)random();
		assert_int_equal(race_report_add(report, &record, &view), 0);
		race_print_text(report, view, n % 2, null);
		race_print_json(report, view, null);
		race_report_times(report, view);
	}
	race_report_close(report);
	fclose(null);
}

static void the_ring_gives_all_in_order_and_counts_the_rest(void **state)
{
	struct race_record *written;
	struct race_record out;
	uint64_t sequence;
	uint64_t torn = 0;

	for (uint32_t i = 0; i < RACE_RECORDS; i++) {
		written = race_write_begin(region, &sequence);
		assert_non_null(written);
		written->pair = i;
		race_write_end(written, sequence);
	}
	assert_null(race_write_begin(region, &sequence));
	for (uint32_t i = 0; i < RACE_RECORDS; i++) {
		assert_int_equal(race_read(region, &out, &torn), 1);
		assert_int_equal(out.pair, i);
	}
	assert_int_equal(race_read(region, &out, &torn), 0);
	assert_non_null(race_write_begin(region, &sequence));
	assert_int_equal(torn, 0);
}

static void a_record_whose_writer_died_is_passed_over(void **state)
{
	struct race_record out;
	uint64_t sequence;
	uint64_t torn = 0;

	assert_non_null(race_write_begin(region, &sequence)); /* and never ended */
	struct race_record *next = race_write_begin(region, &sequence);
	next->pair = 7;
	race_write_end(next, sequence);
	while (!race_read(region, &out, &torn))
		assert_true(torn <= 1);
	assert_int_equal(out.pair, 7);
	assert_int_equal(torn, 1);
}

static void rows_are_found_again(void **state)
{
	struct race_site *site = race_add_site(region, 0x1234);
	int file = race_add_file(region, "/bin/one");

	assert_non_null(site);
	assert_ptr_equal(race_add_site(region, 0x1234), site);
	assert_ptr_equal(race_find_site(region, 0x1234), site);
	assert_null(race_find_site(region, 0x1235));
	assert_true(file > 0);
	assert_int_equal(race_add_file(region, "/bin/one"), file);
	assert_int_not_equal(race_add_file(region, "/bin/two"), file);
	assert_string_equal(region->files[file].path, "/bin/one");
	/* A pair is the same whoever of the two was held. */
	assert_int_equal(race_add_pair(region, 1, 2), race_add_pair(region, 2, 1));
	assert_int_not_equal(race_add_pair(region, 1, 2), race_add_pair(region, 1, 3));
}

/* Else a baseline that knows one of them would hide the other. */
static void races_in_code_without_names_are_told_apart(void **state)
{
	struct race_report *report;
	struct race_record record;
	struct race_view *views[3];

	set_plain(&record);
	assert_int_equal(race_report_open(region, &report), 0);
	record.first.frames[0] = 0x1000;
	record.second.frames[0] = 0x2000;
	assert_int_equal(race_report_add(report, &record, &views[0]), 0);
	record.first.frames[0] = 0x1008;
	assert_int_equal(race_report_add(report, &record, &views[1]), 0);
	assert_string_not_equal(views[0]->fingerprint, views[1]->fingerprint);
	/* Whichever side came first. */
	record.first.frames[0] = 0x2000;
	record.second.frames[0] = 0x1000;
	assert_int_equal(race_report_add(report, &record, &views[2]), 0);
	assert_string_equal(views[2]->fingerprint, views[0]->fingerprint);
	race_report_close(report);
}

/* Seen once with a stack that no suppression is for, a race is told for good. */
static void a_race_is_suppressed_while_all_its_stacks_are(void **state)
{
	struct race_policy policy = { 0 };
	size_t counts[RACE_VERDICTS];
	struct race_report *report;
	struct race_record record;
	struct race_view *view;
	char error[128];
	char text[32];

	strcpy(region->files[1].path, "/no/such/libone.so");
	region->files[1].ready = 1;
	set_plain(&record);
	assert_int_equal(suppressions_new(&policy.suppressions), 0);
	snprintf(text, sizeof(text), "race:libone.so");
	assert_int_equal(suppressions_parse(policy.suppressions, "f", text, error, sizeof(error)), 0);
	assert_int_equal(race_report_open(region, &report), 0);
	race_report_set_policy(report, &policy);
	record.first.frame_count = 2;
	record.first.frames[1] = 1ull << RACE_PLACE_BITS | 0x100;
	assert_int_equal(race_report_add(report, &record, &view), 0);
	assert_int_equal(race_verdict(view, RACE_GRADE_B), RACE_SUPPRESSED);
	assert_ptr_equal(view->suppressed, suppressions_at(policy.suppressions, 0));
	record.first.frame_count = 1;
	assert_int_equal(race_report_add(report, &record, &view), 0);
	assert_int_equal(race_verdict(view, RACE_GRADE_B), RACE_SHOWN);
	assert_int_equal(view->record.first.frame_count, 1);
	record.first.frame_count = 2;
	assert_int_equal(race_report_add(report, &record, &view), 0);
	assert_int_equal(race_verdict(view, RACE_GRADE_B), RACE_SHOWN);
	assert_int_equal(race_verdict(view, RACE_GRADE_A), RACE_BELOW_GRADE);
	assert_int_equal(view->record.first.frame_count, 1);
	race_report_verdicts(report, RACE_GRADE_B, counts);
	assert_true(counts[RACE_SHOWN] == 1 && !counts[RACE_SUPPRESSED] &&
		    !counts[RACE_BASELINED] && !counts[RACE_BELOW_GRADE]);
	race_report_close(report);
	suppressions_free(policy.suppressions);
}

/* A pid that no process has: of a child that was waited for. */
static pid_t dead_pid(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	return pid;
}

static void processes_beyond_the_table_are_counted(void **state)
{
	for (uint64_t i = 0; i < RACE_PROCESSES; i++)
		assert_non_null(race_add_process(region, getpid()));
	assert_null(race_add_process(region, getpid()));
	assert_null(race_add_process(region, getpid()));
	assert_int_equal(region->lost_processes, 2);
	assert_int_equal(region->process_count, RACE_PROCESSES + 2);
}

static void rows_of_dead_processes_are_used_again(void **state)
{
	struct race_totals totals = { 0 };
	pid_t dead = dead_pid();
	uint64_t n = 0;

	for (; n < 3 * RACE_PROCESSES; n++) {
		struct race_process *p = race_add_process(region, n % 3 ? dead : getpid());

		if (!p) {
			race_give_back_rows(region, &totals);
			p = race_add_process(region, n % 3 ? dead : getpid());
			region->lost_processes = 0;
		}
		/* One of three lives, so they fill the table in the end. */
		if (!p)
			break;
		p->counters[RACE_STALLS] = 2;
		p->most_threads = (uint32_t)(n % 7);
		p->error = n % 5 ? 0 : -ENOSPC;
	}
	assert_true(n > 2 * RACE_PROCESSES);
	race_totals(region, &totals);
	assert_int_equal(totals.processes, n);
	assert_int_equal(totals.counters[RACE_STALLS], 2 * n);
	assert_int_equal(totals.failed, (n + 4) / 5);
	assert_int_equal(totals.most_threads, 6);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(plain_words_with_a_change_are_b),
		TEST(words_in_shared_memory_are_c),
		TEST(an_unchanged_value_is_c),
		TEST(unaligned_or_wide_is_a),
		TEST(parts_of_each_other_are_a),
		TEST(increments_without_lock_are_a),
		TEST(locked_partners_make_it_c),
		TEST(a_lost_update_is_a),
		TEST(other_accesses_beside_locked_ones_are_c),
		TEST(waiting_loops_are_c),
		TEST(loops_over_data_are_not_waiting),
		TEST(stores_before_a_fence_are_c),
		TEST(unknown_origin_is_never_a),
		TEST(stacks_are_cut_to_the_number_of_frames),
		TEST(the_library_prints_the_members_of_the_report),
		TEST(a_file_is_named_where_it_is_known),
		TEST(records_of_any_content_are_survived),
		TEST(the_ring_gives_all_in_order_and_counts_the_rest),
		TEST(a_record_whose_writer_died_is_passed_over),
		TEST(rows_are_found_again),
		TEST(processes_beyond_the_table_are_counted),
		TEST(rows_of_dead_processes_are_used_again),
		TEST(races_in_code_without_names_are_told_apart),
		TEST(a_race_is_suppressed_while_all_its_stacks_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
