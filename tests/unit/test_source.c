/* SPDX-License-Identifier: MIT */
/* test_source.c - which lines of a source text are said to be atomic, and which are not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report/code/source.h"

static enum source_says says_in(FILE *stream, int line)
{
	char *statement = source_statement_in(stream, line);
	enum source_says says = source_statement_says(statement);

	free(statement);
	return says;
}

/* Each line begins with what shall be said of it: A, P or, behind the end, U. */
static const char text[] = "P /* atomic is this\n"
			   "P  * comment only, atomic_load() */\n"
			   "P n = n + 1;\n"
			   "A head = atomic_load_explicit(\n"
			   "A	&queue->head, is_mine ? memory_order_acquire :\n"
			   "A				   memory_order_relaxed);\n"
			   "P tail = queue->tail; // not __atomic_load_n()\n"
			   "P if (tail) {\n"
			   "A #pragma omp atomic read acquire\n"
			   "A	seen = ready;\n"
			   "P	data = 1;\n"
			   "P }\n"
			   "A #include <stdatomic.h>\n"
			   "P data =\n"
			   "P	2;\n"
			   "A *(volatile int *)\n"
			   "A	&data = /* two\n"
			   "A	lines */ 3;\n"
			   "P data = 4;\n"
			   "P n = 1; __asm__ volatile(\"\" ::: \"memory\");\n"
			   "P n = 2; asm  volatile(\"\");\n"
			   "A n = 3; asm(\"\"); *(volatile int *)&n = 4;\n"
			   "A rcu_assign_pointer(head, n);\n";

static void each_line_says_what_its_statement_says(void **state)
{
	const char *line = text;

	for (int n = 1; *line; n++) {
		char code[sizeof(text)];
		char *to = code;

		/* The first letter is the test's own. */
		for (const char *c = text; *c; c = strchr(c, '\n') + 1) {
			size_t length = (size_t)(strchr(c, '\n') + 1 - (c + 1));
			memcpy(to, c + 1, length);
			to += length;
		}
		FILE *f = fmemopen(code, (size_t)(to - code), "r");
		assert_non_null(f);
		enum source_says says = says_in(f, n);
		fclose(f);
		if (says != (*line == 'A' ? SOURCE_ATOMIC : SOURCE_PLAIN))
			fail_msg("line %d: %d, \"%.*s\"", n, (int)says,
				 (int)strcspn(line, "\n"), line);
		line = strchr(line, '\n') + 1;
	}
}

static void a_line_behind_the_end_says_nothing(void **state)
{
	char code[] = "atomic_t x;\n";
	FILE *f = fmemopen(code, strlen(code), "r");

	assert_non_null(f);
	assert_int_equal(says_in(f, 2), SOURCE_UNKNOWN);
	fclose(f);
}

static void a_macro_that_is_atomic_makes_its_users_so(void **state)
{
	static const struct {
		const char *statement;
		bool is_atomic;
	} cases[] = {
		{ "GET(&n)", true },	 { "PUT( &n, 1);", true }, { "FORGET(&n);", false },
		{ "PLAIN(&n);", false }, { "n = BEHIND;", false }, { "n = m;", false },
	};
	char code[] = "#define PLAIN(p) (*(p))\n"
		      "\t# define GET(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)\n"
		      "#define PUT(p, v) \\\n\t__atomic_store_n((p), \\\n\t(v), __ATOMIC_RELEASE)\n"
		      "#define BEHIND 1\n"
		      "atomic_int BEHIND_IT;\n";

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		FILE *f = fmemopen(code, strlen(code), "r");

		assert_non_null(f);
		if (source_uses_atomic_macro(f, cases[i].statement) != cases[i].is_atomic)
			fail_msg("%s", cases[i].statement);
		fclose(f);
	}
}

static void a_call_with_names_may_hide_an_access(void **state)
{
	static const struct {
		const char *statement;
		bool may;
	} cases[] = {
		{ "while (!done)", false },
		{ "while (!done) usleep(100);", false },
		{ "if (job->state == 1)", false },
		{ "n = table[(i + 1)] + sizeof(int);", false },
		{ "while (!LOAD(&done))", true },
		{ "while (!LOAD (done)) nap();", true },
		{ "while (is_done(0x10) || f(\n  g()))", true },
		{ "f(", true },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (source_may_hide_access(cases[i].statement) != cases[i].may)
			fail_msg("%s", cases[i].statement);
}

static void an_assignment_is_told_from_the_rest(void **state)
{
	static const struct {
		const char *text;
		bool is_assignment;
		bool is_constant;
		const char *name;
	} cases[] = {
		{ "n = m + 1;", true, false, "n" },
		{ "p->total = 0;", true, true, "total" },
		{ "row[i + k[2]] = UNLOCKED;", true, true, "row" },
		{ "(*count)++;", true, false, "count" },
		{ "++count;", true, false, "count" },
		{ "x <<= 2;", true, false, "x" },
		{ "x += 1;", true, false, "x" },
		{ "box.done = true;", true, true, "done" },
		{ "head = node;", true, false, "head" },
		{ "head = N;", true, false, "head" },
		{ "n = 3 * m;", true, false, "n" },
		{ "if (a == b && c != d || e <= f) {", false, false, "" },
		{ "run([=] {", false, false, "" },
		{ "store(&n, 1);", false, false, "" },
		{ "asm(\"mov %1,%0\" : \"=m\"(n) : \"r\"(m));", false, false, "" },
		{ "", false, false, "" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct source_store store;

		source_store_in(cases[i].text, &store);
		if (store.is_assignment != cases[i].is_assignment ||
		    store.is_constant != cases[i].is_constant || strcmp(store.name, cases[i].name))
			fail_msg("\"%s\": %d %d \"%s\"", cases[i].text, store.is_assignment,
				 store.is_constant, store.name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_line_says_what_its_statement_says),
		cmocka_unit_test(an_assignment_is_told_from_the_rest),
		cmocka_unit_test(a_macro_that_is_atomic_makes_its_users_so),
		cmocka_unit_test(a_call_with_names_may_hide_an_access),
		cmocka_unit_test(a_line_behind_the_end_says_nothing),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("source", tests, NULL, NULL);
}
