/* SPDX-License-Identifier: MIT */
/* code_folded.c - see code_folded.h. */
#include "report/code/code_folded.h"

#include "report/dwarf/same_code.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int label(struct symbols *s, struct code_site *site)
{
	const char *others = same_code_names(s, symbols_module_of(s, site->function),
					     site->function, site->name, UINT64_MAX);
	char *whole;

	if (!others ||
	    strlen(site->name) + strlen(others) + sizeof(CODE_FOLDED_AND CODE_FOLDED_SAME) >
		    CODE_FOLDED_BYTES)
		return 0;
	if (asprintf(&whole, "%s" CODE_FOLDED_AND "%s" CODE_FOLDED_SAME, site->name, others) < 0)
		return -ENOMEM;
	free(site->name);
	site->name = whole;
	return 0;
}

int code_folded_label(struct symbols *s, struct code_sites *sites)
{
	int err = 0;

	for (size_t i = 0; i < sites->count && !err; i++)
		if (sites->site[i].kind == CODE_SITE_FUNCTION)
			err = label(s, &sites->site[i]);
	return err;
}

bool code_folded_is(const char *name)
{
	size_t n = strlen(name);
	size_t end = strlen(CODE_FOLDED_SAME);

	return n > end && !strcmp(name + n - end, CODE_FOLDED_SAME) &&
	       strstr(name, CODE_FOLDED_AND);
}
