/* SPDX-License-Identifier: MIT */
/* test_inject_words.c - a refusal has its cause first, and a remedy. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/inject/inject_words.h"

#define PATH "/proc/self/fd/.//././18"

static char words[256];

static void no_proc_is_said_without_the_path(void **state)
{
	(void)state;
	words_of_loader(PATH ": cannot open shared object file: No such file or directory", PATH,
			words, sizeof(words));
	assert_ptr_equal(strstr(words, "cannot open shared object file"), words);
	assert_non_null(strstr(words, "mount proc there"));
}

static void what_cannot_be_mapped_names_the_limit(void **state)
{
	(void)state;
	words_of_loader(PATH ": failed to map segment from shared object", PATH, words,
			sizeof(words));
	assert_non_null(strstr(words, "prlimit --as"));
}

static void another_text_stays_as_it_is(void **state)
{
	(void)state;
	words_of_loader("libother.so: undefined symbol: f", PATH, words, sizeof(words));
	assert_string_equal(words, "libother.so: undefined symbol: f");
}

static void full_descriptors_name_the_limit(void **state)
{
	(void)state;
	words_of_file(-EMFILE, words, sizeof(words));
	assert_non_null(strstr(words, "prlimit --nofile"));
	words_of_file(-EIO, words, sizeof(words));
	assert_null(strchr(words, ';'));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_proc_is_said_without_the_path),
		cmocka_unit_test(what_cannot_be_mapped_names_the_limit),
		cmocka_unit_test(another_text_stays_as_it_is),
		cmocka_unit_test(full_descriptors_name_the_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
