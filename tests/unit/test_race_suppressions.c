/* SPDX-License-Identifier: MIT */
/*
 * test_race_suppressions.c - which races a suppression is for, and what is said of other text;
 * baselines too.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "report/finding/baseline.h"
#include "report/suppress/suppress.h"
#include "report/dwarf/symbols.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A read in a library, by memcpy, of what is written by a function that was inlined into another. */
static const struct suppress_frame reader[] = {
	{ .function = "__memmove_avx_unaligned", .module = "libc.so.6",
	  .path = "/lib/x86_64-linux-gnu/libc.so.6" },
	{ .function = "queue::pop(char*)", .symbol = "_ZN5queue3popEPc", .source = "/src/queue.cc",
	  .line = 40, .module = "libqueue.so.1", .path = "/opt/lib/libqueue.so.1" },
	{ .function = "worker", .symbol = "worker", .source = "main.c", .line = 12,
	  .module = "server", .path = "/usr/bin/server" },
	{ .function = "start_thread", .symbol = "start_thread", .module = "libc.so.6",
	  .path = "/lib/x86_64-linux-gnu/libc.so.6" },
};
static const struct suppress_frame writer[] = {
	{ .function = "set_length", .source = "../src/buffer.h", .line = 7, .module = "server",
	  .path = "/usr/bin/server", .is_inlined = true },
	{ .function = "fill.constprop.0", .symbol = "fill.constprop.0", .source = "fill.c",
	  .line = 99, .module = "server", .path = "/usr/bin/server" },
	{ .module = "plugin.so", .path = "/opt/lib/plugin.so" },
	{ .function = "main", .symbol = "main", .source = "main.c", .line = 30, .module = "server",
	  .path = "/usr/bin/server" },
};
static const struct suppress_stack stacks[] = {
	{ .frames = reader, .count = COUNT(reader), .top = 1 },
	{ .frames = writer, .count = COUNT(writer), .top = 0 },
};
static const struct suppress_finding race = { .stacks = stacks,
					      .stack_count = COUNT(stacks),
					      .names = { "table" } };

/* How many records the first suppression of a text is used for; -1: the text is wrong. */
static int uses(const char *text)
{
	struct suppressions *s;
	char error[256];
	int used = -1;

	assert_int_equal(suppressions_new(&s), 0);
	if (!suppressions_parse(s, "file", text, error, sizeof(error))) {
		used = suppressions_match(s, &race) != NULL;
		if (used)
			assert_true(suppressions_at(s, 0)->matches == 1);
	}
	suppressions_free(s);
	return used;
}

struct expectation {
	const char *text;
	int used;
};

static void expect_uses(const struct expectation *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (uses(list[i].text) != list[i].used)
			fail_msg("%s: %d, wanted %d", list[i].text, uses(list[i].text),
				 list[i].used);
}

static void lines_match_any_frame_or_the_variable(void **state)
{
	static const struct expectation list[] = {
		{ "race:worker", 1 },
		{ "race:work", 1 },
		{ "race:set_length", 1 },
		{ "race:main.c", 1 },
		{ "race:libqueue.so", 1 },
		{ "race:/opt/lib/plugin.so", 1 },
		{ "race:_ZN5queue3popEPc", 1 },
		{ "race:queue::pop", 1 },
		{ "race:table", 1 },
		{ "race:^table$", 1 },
		{ "race:workers", 0 },
		{ "race:Worker", 0 },
		{ "race:tables", 0 },
		{ "race:pop worker", 0 },
	};

	expect_uses(list, COUNT(list));
}

static void stars_and_ends(void **state)
{
	static const struct expectation list[] = {
		{ "race:^worker$", 1 },
		{ "race:^work", 1 },
		{ "race:ker$", 1 },
		{ "race:^orker", 0 },
		{ "race:worke$", 0 },
		{ "race:^w*r$", 1 },
		{ "race:w*k*r", 1 },
		{ "race:w*z", 0 },
		{ "race:*", 1 },
		{ "race:^fill$", 1 }, /* a clone that the compiler made of it */
		{ "race:^fill.constprop.0$", 1 },
		{ "race:^fil$", 0 },
		{ "race:^queue::pop(char*)$", 1 },
		{ "race:^*::pop(*)$", 1 },
	};

	expect_uses(list, COUNT(list));
}

static void top_is_the_function_that_makes_the_access(void **state)
{
	static const struct expectation list[] = {
		{ "race_top:queue::pop", 1 }, /* it called memmove */
		{ "race_top:^set_length$", 1 },
		{ "race_top:^fill$", 1 }, /* set_length is inlined there */
		{ "race_top:worker", 0 },
		{ "race_top:^main$", 0 },
		{ "race_top:plugin", 0 },
		{ "race_top:memmove", 0 },
		{ "race_top:table", 0 },
	};

	expect_uses(list, COUNT(list));
}

static void a_library_is_that_of_the_access(void **state)
{
	static const struct expectation list[] = {
		{ "called_from_lib:libqueue.so", 1 },
		{ "called_from_lib:^/opt/lib/libqueue", 1 },
		{ "called_from_lib:plugin.so", 0 },
		{ "called_from_lib:libc.so", 0 },
		{ "called_from_lib:queue::pop", 0 },
	};

	expect_uses(list, COUNT(list));
}

static void kinds_of_other_errors_are_passed_over(void **state)
{
	static const struct {
		const char *text;
		int used;
		size_t passed_over;
	} list[] = {
		{ "race:set_length", 1, 0 },
		{ "mutex:set_length\nrace:worker", 1, 1 },
		{ "mutex:worker\ndeadlock:worker\nsignal:worker\nthread:worker\n", 0, 4 },
	};

	for (size_t i = 0; i < COUNT(list); i++) {
		struct suppressions *s;
		char error[256];

		assert_int_equal(suppressions_new(&s), 0);
		assert_int_equal(suppressions_parse(s, "f", list[i].text, error, sizeof(error)), 0);
		assert_int_equal(suppressions_match(s, &race) != NULL, list[i].used);
		assert_int_equal(suppressions_passed_over(s), list[i].passed_over);
		suppressions_free(s);
	}
}

static void comments_and_spaces(void **state)
{
	static const char text[] = "# of ours\r\n\n   race:nothing_here  \r\n"
				   "\t# more\n  \trace_top:^*pop*\t\n race:worker";
	struct suppressions *s;
	char error[256];

	assert_int_equal(suppressions_new(&s), 0);
	assert_int_equal(suppressions_parse(s, "my.supp", text, error, sizeof(error)), 0);
	assert_int_equal(suppressions_count(s), 3);
	assert_string_equal(suppressions_at(s, 0)->text, "race:nothing_here");
	assert_int_equal(suppressions_at(s, 0)->line, 3);
	assert_string_equal(suppressions_at(s, 1)->text, "race_top:^*pop*");
	assert_string_equal(suppressions_at(s, 1)->file, "my.supp");
	assert_int_equal(suppressions_at(s, 1)->line, 5);
	assert_int_equal(suppressions_at(s, 2)->line, 6);
	/* The first that matches is the one that counts. */
	assert_ptr_equal(suppressions_match(s, &race), suppressions_at(s, 1));
	assert_ptr_equal(suppressions_match(s, &race), suppressions_at(s, 1));
	assert_true(suppressions_at(s, 1)->matches == 2);
	assert_true(suppressions_at(s, 0)->matches == 0 && suppressions_at(s, 2)->matches == 0);
	suppressions_free(s);
}

static void wrong_text_is_one_line_with_its_number(void **state)
{
	static const struct {
		const char *text;
		int line;
		const char *what;
	} list[] = {
		{ "race:a\nworker\n", 2, "'worker'" },
		{ "races:worker\n", 1, "'races'" },
		{ ":worker\n", 1, "unknown suppression" },
		{ "\n\nrace:\n", 3, "no pattern after 'race:'" },
		{ "race:^$\n", 1, "no pattern" },
		{ "race:a\n}\n", 2, "'}'" },
		{ "{\n a\n Helgrind:Race\n fun:b\n}\n", 1, "'{'" }, /* a block of valgrind's */
		{ "a\x1b[31m\x01\n", 1, "invalid suppression" },
	};

	for (size_t i = 0; i < COUNT(list); i++) {
		struct suppressions *s;
		char error[512] = "";
		char where[32];

		assert_int_equal(suppressions_new(&s), 0);
		assert_int_equal(suppressions_parse(s, "f", list[i].text, error, sizeof(error)),
				 -EINVAL);
		snprintf(where, sizeof(where), "f:%d: ", list[i].line);
		if (strncmp(error, where, strlen(where)) != 0 || !strstr(error, list[i].what) ||
		    strpbrk(error, "\n\x1b\x01"))
			fail_msg("%s", error);
		suppressions_free(s);
	}
}

static void each_tool_has_rules_of_its_own(void **state)
{
	static const struct {
		const char *text;
		enum suppress_tool tool;
	} list[] = {
		{ "race:worker\n", SUPPRESS_RACES },	  { "heap:worker\n", SUPPRESS_HEAP },
		{ "flow:worker\n", SUPPRESS_FLOWS },	  { "flow_top:queue::pop\n", SUPPRESS_FLOWS },
		{ "flow_from_lib:libqueue\n", SUPPRESS_FLOWS },
	};
	char error[256];

	for (size_t i = 0; i < COUNT(list); i++) {
		struct suppressions *s;

		assert_int_equal(suppressions_new(&s), 0);
		assert_int_equal(suppressions_parse(s, "f", list[i].text, error, sizeof(error)), 0);
		for (int tool = SUPPRESS_RACES; tool <= SUPPRESS_FLOWS; tool++) {
			struct suppress_finding finding = race;

			finding.tool = tool;
			assert_int_equal(suppressions_match(s, &finding) != NULL,
					 tool == (int)list[i].tool);
		}
		suppressions_free(s);
	}
}

static void names_and_stacks_of_any_number_match(void **state)
{
	const struct suppress_finding flow = { .tool = SUPPRESS_FLOWS,
					       .stacks = &stacks[1],
					       .stack_count = 1,
					       .names = { "PASSWORD", "system" } };
	struct suppressions *s;
	char error[256];

	assert_int_equal(suppressions_new(&s), 0);
	assert_int_equal(suppressions_parse(s, "f", "flow:^worker$\n", error, sizeof(error)), 0);
	assert_null(suppressions_match(s, &flow));
	assert_int_equal(suppressions_parse(s, "f", "flow:^system$\n", error, sizeof(error)), 0);
	assert_ptr_equal(suppressions_match(s, &flow), suppressions_at(s, 1));
	suppressions_free(s);
}

static void nothing_known_is_suppressed_by_nothing_but_everything(void **state)
{
	const struct suppress_finding unknown = { 0 };
	struct suppressions *s;
	char error[256];

	assert_int_equal(suppressions_new(&s), 0);
	assert_int_equal(suppressions_parse(s, "f", "race:a\nrace:*\nrace_top:*\n", error,
					    sizeof(error)), 0);
	assert_null(suppressions_match(s, &unknown));
	suppressions_free(s);
}

/* A file of these bytes; its path in path. */
static void write_file(char *path, const char *text, size_t n)
{
	strcpy(path, "/tmp/test_race_suppressions.XXXXXX");
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, n), n);
	close(fd);
}

static void files_are_read_or_it_is_said_why_not(void **state)
{
	struct suppressions *s;
	char error[512] = "";
	char path[64];

	assert_int_equal(suppressions_new(&s), 0);
	assert_int_equal(suppressions_read(s, "/no/such", error, sizeof(error)), -ENOENT);
	assert_string_equal(error, "/no/such: No such file or directory");
	assert_true(suppressions_read(s, "/", error, sizeof(error)) < 0);
	write_file(path, "race:\0a\n", 8);
	assert_int_equal(suppressions_read(s, path, error, sizeof(error)), -EINVAL);
	assert_non_null(strstr(error, "NUL"));
	unlink(path);
	write_file(path, "", 0);
	assert_int_equal(suppressions_read(s, path, error, sizeof(error)), 0);
	unlink(path);
	write_file(path, "race:worker", 11);
	assert_int_equal(suppressions_read(s, path, error, sizeof(error)), 0);
	assert_int_equal(suppressions_count(s), 1);
	assert_non_null(suppressions_match(s, &race));
	unlink(path);
	suppressions_free(s);
}

static void what_ships_is_for_what_it_names_and_told_when_used(void **state)
{
	static const struct suppress_frame begin[] = {
		{ .module = "libsqlite3.so.0", .path = "/usr/lib/libsqlite3.so.0" },
		{ .function = "sqlite3WalBeginReadTransaction", .module = "libsqlite3.so.0",
		  .path = "/usr/lib/libsqlite3.so.0" },
	};
	const struct suppress_stack one = { .frames = begin, .count = COUNT(begin) };
	const struct suppress_finding in_sqlite = { .stacks = &one, .stack_count = 1 };
	struct suppressions *s;

	assert_int_equal(suppressions_new(&s), 0);
	assert_int_equal(suppressions_add_known(s), 0);
	assert_null(suppressions_match(s, &race));
	for (size_t i = 0; i < suppressions_count(s); i++)
		assert_false(suppression_is_reported(suppressions_at(s, i)));
	const struct suppression *used = suppressions_match(s, &in_sqlite);
	assert_non_null(used);
	assert_true(suppression_is_reported(used));
	assert_string_equal(used->file, SUPPRESSIONS_KNOWN);
	suppressions_free(s);
}

static void a_baseline_knows_its_fingerprints(void **state)
{
	static const char text[] = "# known\n\nffff0000ffff0000  A write-write x in a / b\r\n"
				   " 00000000000000AB\nffff0000ffff0000 again\n";
	struct baseline *b;
	char error[512];
	char path[64];

	write_file(path, text, strlen(text));
	assert_int_equal(baseline_new(&b), 0);
	assert_int_equal(baseline_read(b, path, error, sizeof(error)), 0);
	unlink(path);
	assert_int_equal(baseline_count(b), 2);
	assert_string_equal(baseline_at(b, 0)->fingerprint, "00000000000000ab");
	assert_string_equal(baseline_at(b, 1)->text, "A write-write x in a / b");
	assert_int_equal(baseline_gone(b), 2);
	assert_false(baseline_see(b, "ffff0000ffff0001"));
	assert_false(baseline_see(NULL, "ffff0000ffff0000"));
	assert_int_equal(baseline_gone(b), 2);
	assert_true(baseline_see(b, "ffff0000ffff0000"));
	assert_int_equal(baseline_gone(b), 1);
	baseline_free(b);
}

static void a_wrong_baseline_is_refused_with_its_line(void **state)
{
	static const char *const texts[] = { "# a\nffff0000ffff000\n", "\nffff0000ffff00000\n",
					     "\nrace:foo\n", "\n{\"type\":\"race\"}\n" };

	for (size_t i = 0; i < COUNT(texts); i++) {
		struct baseline *b;
		char error[512];
		char where[80];
		char path[64];

		write_file(path, texts[i], strlen(texts[i]));
		assert_int_equal(baseline_new(&b), 0);
		assert_int_equal(baseline_read(b, path, error, sizeof(error)), -EINVAL);
		snprintf(where, sizeof(where), "%s:2: ", path);
		assert_memory_equal(error, where, strlen(where));
		unlink(path);
		baseline_free(b);
	}
}

/* Devices and FIFOs have no end, and a sparse file of this size is as long as one. */
static void a_baseline_that_has_no_end_is_refused(void **state)
{
	char fifo[] = "/tmp/test_race_baseline.XXXXXX";
	char huge[] = "/tmp/test_race_baseline.XXXXXX";
	const char *const paths[] = { "/dev/full", "/dev/zero", "/tmp", fifo, huge };
	int fd = mkstemp(fifo);

	assert_return_code(fd, errno);
	close(fd);
	unlink(fifo);
	assert_return_code(mkfifo(fifo, 0600), errno);
	fd = mkstemp(huge);
	assert_return_code(fd, errno);
	assert_return_code(ftruncate(fd, INT64_C(1) << 40), errno);
	close(fd);
	alarm(20);
	for (size_t i = 0; i < COUNT(paths); i++) {
		struct baseline *b;
		char error[512];
		char line[512];
		int is_huge = paths[i] == huge;

		assert_int_equal(baseline_new(&b), 0);
		assert_int_equal(baseline_read(b, paths[i], error, sizeof(error)),
				 is_huge ? -EFBIG : -EMEDIUMTYPE);
		snprintf(line, sizeof(line), "%s: %s", paths[i],
			 is_huge ? "File too large" : "not a regular file");
		assert_string_equal(error, line);
		assert_int_equal(baseline_count(b), 0);
		baseline_free(b);
	}
	alarm(0);
	unlink(fifo);
	unlink(huge);
}

static inline __attribute__((always_inline)) uint64_t innermost(void)
{
	uint64_t here;

	__asm__ volatile("lea 0(%%rip), %0" : "=r"(here));
	return here;
}

static inline __attribute__((always_inline)) uint64_t between(void)
{
	return innermost();
}

static __attribute__((noinline, noclone)) uint64_t outermost(void)
{
	return between();
}

/* Suppressions go by them, so none may be left out. */
static void inlined_functions_are_told_one_by_one(void **state)
{
	struct place places[8];
	struct symbols *s;
	uint64_t here = outermost() - 1; /* in that instruction, not after it */

	assert_int_equal(symbols_open(getpid(), &s), 0);
	assert_int_equal(symbols_frames(s, here, places, 8), 3);
	assert_string_equal(places[0].function, "innermost");
	assert_string_equal(places[1].function, "between");
	assert_string_equal(places[2].function, "outermost");
	assert_string_equal(places[2].symbol, "outermost");
	assert_null(places[0].symbol);
	assert_true(places[0].line < places[1].line && places[1].line < places[2].line);
	symbols_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_match_any_frame_or_the_variable),
		cmocka_unit_test(stars_and_ends),
		cmocka_unit_test(top_is_the_function_that_makes_the_access),
		cmocka_unit_test(a_library_is_that_of_the_access),
		cmocka_unit_test(kinds_of_other_errors_are_passed_over),
		cmocka_unit_test(comments_and_spaces),
		cmocka_unit_test(wrong_text_is_one_line_with_its_number),
		cmocka_unit_test(each_tool_has_rules_of_its_own),
		cmocka_unit_test(names_and_stacks_of_any_number_match),
		cmocka_unit_test(nothing_known_is_suppressed_by_nothing_but_everything),
		cmocka_unit_test(files_are_read_or_it_is_said_why_not),
		cmocka_unit_test(inlined_functions_are_told_one_by_one),
		cmocka_unit_test(what_ships_is_for_what_it_names_and_told_when_used),
		cmocka_unit_test(a_baseline_knows_its_fingerprints),
		cmocka_unit_test(a_wrong_baseline_is_refused_with_its_line),
		cmocka_unit_test(a_baseline_that_has_no_end_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
