/* SPDX-License-Identifier: MIT */
/* condition_copy.c - what is asked of a condition that is made: see condition_names.h. */
#include "cond/compile.h"
#include "report/lang/condition_names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int condition_compare(const struct condition_names *names, const struct condition_names *other,
		      const char *text)
{
	struct condition_parts parts[2] = { { 0 } };
	struct expression_error error;
	int differs = 1;

	if (!condition_make(names, text, &parts[0], &error)) {
		if (!parts[0].has_parameters)
			differs = -1;
		else if (!condition_make(other, text, &parts[1], &error))
			differs = memcmp(&parts[0].entry->ir, &parts[1].entry->ir,
					 sizeof(parts[0].entry->ir)) != 0;
	}
	free(parts[0].entry);
	free(parts[1].entry);
	return differs;
}

int condition_copy(const struct trapline_condition *condition, void *out, size_t size,
		   uint32_t *bytes, bool *counts_hits)
{
	if (condition->ir.event_count)
		return -EINVAL;
	if (sizeof(condition->ir) > size)
		return -E2BIG;
	memcpy(out, &condition->ir, sizeof(condition->ir));
	*bytes = sizeof(condition->ir);
	*counts_hits = cond_uses(&condition->ir, COND_HITS) ||
		       cond_uses(&condition->ir, COND_HITS_IN_THREAD);
	return 0;
}

bool condition_reads_vectors(const struct trapline_condition *condition)
{
	return condition && cond_uses_vectors(&condition->ir);
}

bool condition_reads_memory(const struct trapline_condition *condition)
{
	for (uint32_t i = 0; condition && i < condition->ir.count; i++)
		if (condition->ir.steps[i].op == COND_LOAD ||
		    condition->ir.steps[i].op == COND_STRING)
			return true;
	return false;
}
