/* SPDX-License-Identifier: MIT */
/* break_result.c - see break_result.h. */
#include "cli/break/break_result.h"

#include "cli/message.h"
#include "cli/observe/observe_settings.h"

#if defined(__x86_64__)
/* Reads rax or a part of it: what compilers put behind a call whose result they use. */
static bool reads_result(const uint8_t *code)
{
	bool has_prefix = (code[0] & 0xf0) == 0x40;
	bool is_extended = has_prefix && code[0] & 0x04; /* its register is r8 to r15 */

	code += has_prefix;
	switch (code[0]) {
	case 0x01: /* add, mov from a register */
	case 0x88:
	case 0x89:
	case 0x39: /* cmp */
		return !is_extended && (code[1] & 0x38) == 0;
	case 0x84: /* test of it with itself */
	case 0x85:
		return code[1] == 0xc0;
	case 0x3c: /* cmp, test, add, sub with a number; cdqe */
	case 0x3d:
	case 0xa8:
	case 0xa9:
	case 0x05:
	case 0x2d:
	case 0x98:
		return true;
	case 0x83: /* cmp with a small number */
	case 0x80:
		return code[1] == 0xf8;
	case 0x63: /* movsxd */
		return (code[1] & 0xc7) == 0xc0;
	case 0x0f: /* movzx, movsx */
		return (code[1] & 0xf6) == 0xb6 && (code[2] & 0xc7) == 0xc0;
	default:
		return false;
	}
}
#else
static bool reads_result(const uint8_t *code)
{
	(void)code;
	return false;
}
#endif

bool break_result_is_there(struct symbols *s, const struct signature *signature, uint64_t caller)
{
	uint8_t code[8];

	if (!signature || !signature->may_lack_result)
		return true;
	return caller && !symbols_read(s, caller, code, sizeof(code)) && reads_result(code);
}

bool break_result_holds(const struct observe_settings *set, struct symbols *s,
			const struct signature *signature, const struct trapline_hit *returned,
			uint64_t caller)
{
	uint64_t value = 0;

	if (!break_result_is_there(s, signature, caller))
		return false;
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
