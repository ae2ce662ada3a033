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

static void parse(const char *text, int size)
{
	struct expression_error error;
	struct expression *e = NULL;

	if (expression_parse(text, &e, &error))
		must(error.column >= 1 && error.column <= size + 1 && error.text[0]);
	expression_free(e);
}

static void make(const char *text, int size, bool has_result)
{
	const struct condition_names names = { .has_result = has_result };
	struct condition_parts parts = { 0 };
	struct expression_error error;

	/* Column 0: the whole, when the result cannot be compared so. */
	if (condition_make(&names, text, &parts, &error))
		must(error.column >= !has_result && error.column <= size + 1 && error.text[0]);
	trapline_condition_free(parts.entry);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	must(text != NULL);
	memcpy(text, data, size);
	text[size] = '\0';
	parse(text, (int)strlen(text));
	make(text, (int)strlen(text), false);
	make(text, (int)strlen(text), true);
	free(text);
	return 0;
}
