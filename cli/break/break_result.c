/* SPDX-License-Identifier: MIT */
/* break_result.c - see break_result.h. */
#include "cli/break/break_result.h"

#include "cli/cmd.h"
#include "cli/observe/observe_settings.h"

bool break_result_holds(const struct observe_settings *set, struct symbols *s,
			const struct signature *signature, const struct trapline_hit *returned)
{
	uint64_t value = 0;

	trapline_hit_register(returned, 0, &value);
	return result_holds(&set->result, s, signature ? signature->result.type : NULL, value);
}

int break_result_check(const struct observe_settings *set, struct symbols *s,
		       const struct signature *signature, const char *function)
{
	const struct type *type = signature ? signature->result.type : NULL;

	if (set->result.count && type &&
	    (type->kind == TYPE_VOID || type_has_members(type) ||
	     signature->result.where != SIGNATURE_REGISTERS || signature->more_count))
		return cli_wrong(set->name, "--if: cannot compare the result of %s: its type is %s",
				 function, type->name);
	const char *unknown = result_unknown(&set->result, s, type);
	return unknown ? cli_wrong(set->name, "--if: unknown constant '%s'", unknown) : 0;
}
