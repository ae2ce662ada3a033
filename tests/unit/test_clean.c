/* SPDX-License-Identifier: MIT */
/* test_clean.c - names of a target are shown without what a terminal acts on. */
#include "report/safe/clean.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void plain_names_stay_where_they_are(void **state)
{
	const char *name = "std::map<int, char const*>::operator[](int&&) [clone .cold]";

	assert_ptr_equal(clean_name(name), name);
	assert_null(clean_name(NULL));
	assert_string_equal(clean_name(""), "");
}

static void letters_of_all_languages_stay(void **state)
{
	assert_string_equal(clean_name("größe_переменная_変数_🦀"), "größe_переменная_変数_🦀");
}

static void controls_are_replaced_byte_by_byte(void **state)
{
	static const char *const pairs[][2] = {
		{ "a\033[2Jb", "a?[2Jb" },	  { "a\nb\rc\td", "a?b?c?d" },
		{ "a\x7f", "a?" },		  { "a\xc2\x9b" "31mb", "a??31mb" },
		{ "a\x9b" "b", "a?b" },		  { "a\xe2\x80\xae" "b", "a???b" },
		{ "a\xe2\x81\xa6" "b", "a???b" }, { "a\xe2\x80\xa8" "b", "a???b" },
	};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		assert_string_equal(clean_name(pairs[i][0]), pairs[i][1]);
}

static void what_is_no_utf8_is_replaced(void **state)
{
	static const char *const pairs[][2] = {
		{ "\xff", "?" },		 { "\xc3", "?" },
		{ "\xc0\xaf", "??" },		 { "\xe2\x82", "??" },
		{ "\xed\xa0\x80", "???" },	 { "\xf4\x90\x80\x80", "????" },
		{ "\xf0\x9f\xa6", "???" },	 { "\xc3\xc3\xa9", "?é" },
	};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		assert_string_equal(clean_name(pairs[i][0]), pairs[i][1]);
}

static void equal_copies_are_one(void **state)
{
	char first[] = "x\033", second[] = "x\033";

	assert_ptr_equal(clean_name(first), clean_name(second));
}

/* Any bytes give text without controls and of the same length, and cleaning again changes nothing. */
static void random_bytes_become_clean(void **state)
{
	const char *given = getenv("TRAPLINE_SEED");
	unsigned int seed = given ? (unsigned int)strtoul(given, NULL, 0) : 20261123u;

	print_message("# seed %u\n", seed);
	srand(seed);
	for (int round = 0; round < 20000; round++) {
		char text[24], again[24];
		size_t n = (size_t)rand() % (sizeof(text) - 1);
		for (size_t i = 0; i < n; i++)
			text[i] = (char)(1 + rand() % 255);
		text[n] = 0;
		clean_text(text);
		assert_int_equal(strlen(text), n);
		for (size_t i = 0; i < n; i++) {
			unsigned char c = (unsigned char)text[i];
			assert_true(c >= 0x20 && c != 0x7f);
			assert_false(c == 0xc2 && (unsigned char)text[i + 1] < 0xa0);
		}
		memcpy(again, text, sizeof(text));
		clean_text(again);
		assert_string_equal(again, text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_names_stay_where_they_are),
		cmocka_unit_test(letters_of_all_languages_stay),
		cmocka_unit_test(controls_are_replaced_byte_by_byte),
		cmocka_unit_test(what_is_no_utf8_is_replaced),
		cmocka_unit_test(equal_copies_are_one),
		cmocka_unit_test(random_bytes_become_clean),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
