/* SPDX-License-Identifier: MIT */
/*
 * expression.c - any bytes as a place in memory, and as a condition with names in it: nothing but
 * an error with its column, or a tree.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "report/lang/condition_names.h"

static void must(bool holds)
{
	if (!holds)
		abort();
}

static bool is_term(const char *word)
{
	return !strcmp(word, "new") || !strcmp(word, "old") || !strcmp(word, "changed");
}

static void parse(const char *text, int size)
{
	struct expression_error error;
	struct expression *e = NULL;

	int n = expression_parse_prefix(text, &e, &error);
	must(n > 0 ? n <= size : error.column >= 1 && error.column <= size + 1);
	expression_free(e);
	e = NULL;
	if (expression_parse(text, &e, &error))
		must(error.column >= 1 && error.column <= size + 1 && error.text[0]);
	expression_free(e);
}

static void rewrite(const char *text, int size)
{
	struct condition_names names = { .is_term = is_term };
	struct expression_error error;
	struct condition_text out;

	if (condition_names(&names, text, &out, &error)) {
		must(error.column >= 1 && error.column <= size + 1);
		return;
	}
	for (size_t i = 0; out.text[i]; i++)
		must(out.columns[i] >= 1 && out.columns[i] <= size + 1);
	condition_text_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	must(text != NULL);
	memcpy(text, data, size);
	text[size] = '\0';
	parse(text, (int)strlen(text));
	rewrite(text, (int)strlen(text));
	free(text);
	return 0;
}
