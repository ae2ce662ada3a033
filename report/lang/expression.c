/* SPDX-License-Identifier: MIT */
/* expression.c - see expression.h: the text, and paths that are followed again. */
#include "report/lang/expression.h"

#include <errno.h>

int expression_parse(const char *text, struct expression **out, struct expression_error *error)
{
	return tree_of_place(text, out, error);
}

void expression_free(struct expression *e)
{
	tree_free(e);
}

bool expression_has_offset(const struct expression *e)
{
	return e->has_offset;
}

uint64_t expression_length(const struct expression *e)
{
	return e->length;
}

int expression_path_follow(struct symbols *s, const struct expression_path *path, uint64_t value,
			   uint64_t *out)
{
	uint64_t at = path->base + value;

	for (size_t i = 0; i < path->links; i++) {
		if (symbols_read(s, at, &at, sizeof(at)) || !at)
			return -EFAULT;
		at += path->offsets[i];
	}
	*out = at;
	return 0;
}
