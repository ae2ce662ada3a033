/* SPDX-License-Identifier: MIT */
/*
 * suppressions.c - any bytes as suppressions: all that were read can be asked, or one line says what
 * is wrong.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "report/suppress/suppress.h"

static void must(bool holds)
{
	if (!holds)
		abort();
}

static const struct suppress_frame frames[] = {
	{ .function = "set_length", .source = "buffer.h", .line = 7, .module = "server",
	  .is_inlined = true },
	{ .function = "fill.constprop.0", .symbol = "fill.constprop.0", .source = "/src/fill.c",
	  .line = 99, .module = "server", .path = "/usr/bin/server" },
	{ .path = "/opt/lib/plugin.so" },
	{ .function = "main", .symbol = "main" },
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct suppress_stack stacks[] = { { .frames = frames, .count = 4 },
						 { .frames = frames + 1, .count = 3, .top = 1 } };
	const struct suppress_finding race = { .stacks = stacks,
					       .stack_count = 2,
					       .names = { "table" } };
	struct suppressions *s;
	char error[256] = "";
	char *text = malloc(size + 1);

	must(text && !suppressions_new(&s));
	memcpy(text, data, size);
	text[size] = '\0';
	if (suppressions_parse(s, "f", text, error, sizeof(error)))
		must(!strncmp(error, "f:", 2) && !strchr(error, '\n'));
	const struct suppression *by = suppressions_match(s, &race);
	must(!by || (by->matches == 1 && by->text && by->line > 0));
	suppressions_free(s);
	free(text);
	return 0;
}
