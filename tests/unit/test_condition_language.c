/* SPDX-License-Identifier: MIT */
/* test_condition_language.c - the language: what is taken, what is refused, where and with which words. */
#include "../kernel/common.h"

#include <trapline/condition.h>

static int find_symbol(void *arg, const char *name, uint64_t *address, uint64_t *bytes)
{
	if (strcmp(name, "main") != 0 && strcmp(name, "libc.so.6:malloc") != 0)
		return -ENOENT;
	*address = 0x1000;
	*bytes = 32;
	return 0;
}

static int parse(const char *text, struct trapline_condition_error *error,
		 struct trapline_condition **out)
{
	TRAPLINE_OPTS(condition, opts);

	opts.find_symbol = find_symbol;
	opts.error = error;
	return trapline_condition_parse(text, &opts, out);
}

static void what_users_write_is_taken(void **state)
{
	static const char *const texts[] = {
		"1",
		"new",
		"new < old",
		"new == 0 && caller in main",
		"ip in \"libc.so.6:malloc\"",
		"*(u32 *)(*(u64 *)(arg0 + 8) + 16) == 0x10u",
		"*(uint16_t*)rsp >= (int8_t)-1",
		"str(arg1) == \"GET\" || str(arg1)!=\"\\x41\\n\"",
		"thread == \"main\" ? hits > 3 : hits_in_thread % 10 == 0",
		" ( ( changed ) )\n\t&& !0 ",
		"addr == &main + 8",
		"arg0 == 'x' || arg0 == '\\n' || arg0 == 0b101 || arg0 == 017",
		"- -1 == 1 && ~0 == -1 && +1",
		"1 ? 2 : 3 ? 4 : 5",
		"*(f64 *)arg0 > 1.5 && *(f32 *)(arg0 + 8) != -.5f",
		"1e-3 < *(f64*)addr || new >= 0x1.8p3 || 2. == old",
		"!*(f64 *)addr || (new ? *(f64 *)addr : 1.0) < 2",
		"*(double *)arg0 * 2.0 + *(float *)arg1 > new - 1",
		"(f32)new / 3 == .5f && (s64)(*(f64 *)addr * 100) % 7 == (u8)-2.5",
		"*(f64 *)arg0 > new || (double)old == (float)new",
	};
	struct trapline_condition_error error;

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct trapline_condition *parsed = NULL;
		int err = parse(texts[i], &error, &parsed);

		if (err)
			print_message("# %s: %d: %s\n", texts[i], error.column, error.message);
		assert_int_equal(err, 0);
		trapline_condition_free(parsed);
	}
}

static void what_is_wrong_is_said_with_its_place(void **state)
{
	static const struct {
		const char *text;
		int line;
		int column;
		const char *says;
	} cases[] = {
		{"", 1, 1, "expected a number, a term or '('"},
		{"new ==", 1, 7, "the condition ends"},
		{"new = 3", 1, 5, "== compares"},
		{"new == 3)", 1, 9, "expected an operator or the end, not ')'"},
		{"(new == 3", 1, 10, "expected ')'"},
		{"newer == 3", 1, 1, "unknown term 'newer'; &newer is the address of a symbol"},
		{"1 +\n  * 3", 2, 5, "expected '(' and a type"},
		{"*(int *)arg0", 1, 3, "expected a type"},
		{"*(u32)arg0", 1, 6, "expected '*'"},
		{"(u32 *)arg0", 1, 6, "a pointer type is possible in"},
		{"ip in mian", 1, 7, "no symbol is named 'mian'"},
		{"&3", 1, 2, "expected the name of a symbol"},
		{"thread == 3", 1, 11, "expected a string"},
		{"thread < \"x\"", 1, 8, "expected == or !="},
		{"thread == \"a name that is long\"", 1, 11, "15 bytes"},
		{"str(arg0) == \"\"", 1, 14, "empty string"},
		{"str(arg0 == \"x\"", 1, 13, "expected a number"},
		{"str(arg0) == \"x", 1, 14, "does not end"},
		{"count(nothing)", 1, 7, "no event is named 'nothing'"},
		{"0x10000000000000000", 1, 1, "more than 64 bits"},
		{"12monkeys", 1, 1, "unexpected letters after a number"},
		{"new @ 3", 1, 5, "a condition has no such character"},
		{"1 ? 2", 1, 6, "expected ':'"},
		{"'ab'", 1, 1, "does not end"},
		{"\"\\q\" == 3", 1, 1, "backslash"},
		{"08", 1, 1, "unexpected letters after a number"},
		{"*(f64 *)arg0 % 2 > 1", 1, 1, "a whole number is needed here"},
		{"new >> *(f32 *)arg0", 1, 8, "(s64) before it cuts it"},
		{"~(new + 1.5)", 1, 7, "a whole number is needed here"},
		{"*(u8 *)(new * 2.0)", 1, 13, "a whole number is needed here"},
		{"1.5 & 1", 1, 1, "a whole number is needed here"},
		{"(f64 *)arg0", 1, 6, "a pointer type is possible in"},
		{"new > 1.5x", 1, 7, "unexpected letters after a number"},
		{"new > 1e999", 1, 7, "too large for its type"},
		{"new ? 1.5 : 2", 1, 5, "both sides of ':' must have one type"},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct trapline_condition *parsed = (void *)&cases;
		struct trapline_condition_error error = {0};

		assert_int_equal(parse(cases[i].text, &error, &parsed), -EINVAL);
		if (error.line != cases[i].line || error.column != cases[i].column ||
		    !strstr(error.message, cases[i].says))
			print_message("# '%s' %d:%d %s\n", cases[i].text, error.line,
				      error.column, error.message);
		assert_int_equal(error.line, cases[i].line);
		assert_int_equal(error.column, cases[i].column);
		assert_non_null(strstr(error.message, cases[i].says));
		assert_ptr_equal(parsed, (void *)&cases); /* untouched on failure */
	}
}

static void what_is_too_large_is_refused(void **state)
{
	struct trapline_condition_error error;
	struct trapline_condition *parsed;
	char text[5000];

	memset(text, '(', 4000);
	text[4000] = '\0';
	assert_int_equal(parse(text, &error, &parsed), -E2BIG);
	memset(text, '!', 4000);
	assert_int_equal(parse(text, &error, &parsed), -E2BIG);
	memset(text, '1', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(parse(text, &error, &parsed), -E2BIG);
	text[0] = '\0';
	for (int i = 0; i < 600; i++)
		strcat(text, "1+-");
	strcat(text, "1");
	assert_int_equal(parse(text, &error, &parsed), -E2BIG);
}

static void explain_shows_steps_program_and_verdict(void **state)
{
	static char text[1 << 20];
	struct trapline_condition_error error;
	struct trapline_condition *parsed;
	char few[16];

	assert_int_equal(parse("new == 42", &error, &parsed), 0);
	int len = trapline_condition_explain(parsed, text, sizeof(text));
	assert_true(len > 0 && (size_t)len < sizeof(text));
	assert_int_equal(strlen(text), len);
	assert_non_null(strstr(text, "term new"));
	assert_non_null(strstr(text, "push 0x2a"));
	if (bpf_is_permitted()) {
		assert_non_null(strstr(text, "r6 = r1"));
		assert_non_null(strstr(text, "verifier: accepted"));
	} else {
		assert_non_null(strstr(text, "the interpreter decides"));
	}
	assert_int_equal(trapline_condition_explain(parsed, few, sizeof(few)), len);
	assert_int_equal(strlen(few), sizeof(few) - 1);
	trapline_condition_free(parsed);
	trapline_condition_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_users_write_is_taken),
		TEST(what_is_wrong_is_said_with_its_place),
		TEST(what_is_too_large_is_refused),
		TEST(explain_shows_steps_program_and_verdict),
	};

	return run_group(tests);
}
