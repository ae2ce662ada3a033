/* SPDX-License-Identifier: MIT */
/* local.c - see local.h. The location is evaluated as far as one register and a number go. */
#include "report/lang/local.h"

#include "report/dwarf/dies.h"
#include "report/dwarf/types_priv.h"
#include "report/dwarf/unit.h"
#include "report/lang/frame_edges.h"
#include "report/lang/signature_priv.h"
#include "report/path.h"
#include "report/safe/clean.h"

#include <dwarf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENTRY_BYTES 256 /* of a function, where its parameters are put into its frame */

struct local {
	Dwfl_Module *mod;
	uint64_t address;
	Dwarf_Addr pc; /* address in the file */
	Dwarf_Die scopes[DIE_SCOPES_MAX];
	int count;
	bool is_left_out;
};

static bool child_named(Dwarf_Die *block, const char *name, Dwarf_Die *out)
{
	bool is_found = false;
	Dwarf_Die die;

	if (dwarf_child(block, &die))
		return false;
	do {
		int tag = dwarf_tag(&die);
		if (tag != DW_TAG_variable && tag != DW_TAG_formal_parameter)
			continue;
		const char *text = clean_die_name(&die);
		if (!text || strcmp(text, name) != 0 || die_flag(&die, DW_AT_declaration))
			continue;
		*out = die;
		is_found = true;
	} while (!dwarf_siblingof(&die, &die));
	return is_found;
}

/*
 * The calls of a line that the compiler put right there begin at the same instruction: the names of
 * the line are those around them.
 */
static void leave_inlined_calls(struct local *l, const struct code_site *site)
{
	const char *colon = site->kind == CODE_SITE_LINE ? strrchr(site->name, ':') : NULL;
	uint64_t line = colon ? strtoull(colon + 1, NULL, 10) : 0;
	char file[256];
	uint64_t number;

	if (!line)
		return;
	snprintf(file, sizeof(file), "%.*s", (int)(colon - site->name), site->name);
	const char *last = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
	for (int i = l->count; i-- > 0 && dwarf_tag(&l->scopes[i]) != DW_TAG_subprogram;)
		if (dwarf_tag(&l->scopes[i]) == DW_TAG_inlined_subroutine &&
		    die_number(&l->scopes[i], DW_AT_call_line, &number) && number == line &&
		    die_number(&l->scopes[i], DW_AT_call_file, &number) &&
		    path_ends_in(die_file_by_number(&l->scopes[i], number), last))
			l->count = i;
}

/* The compiler left it out of an inlined copy, where nothing has its value. */
static bool is_left_out(Dwarf_Die *copy, const char *name)
{
	Dwarf_Attribute attr;
	Dwarf_Die function;
	Dwarf_Die die;

	return dwarf_attr(copy, DW_AT_abstract_origin, &attr) &&
	       dwarf_formref_die(&attr, &function) && child_named(&function, name, &die);
}

/* From the innermost block up to the function, or the inlined copy, that is the source's. */
static bool find_die(struct local *l, const char *name, Dwarf_Die *out)
{
	for (int i = l->count; i-- > 0;) {
		int tag = dwarf_tag(&l->scopes[i]);
		if (child_named(&l->scopes[i], name, out))
			return true;
		if (tag != DW_TAG_subprogram && tag != DW_TAG_inlined_subroutine)
			continue;
		l->is_left_out = is_left_out(&l->scopes[i], name);
		return false;
	}
	return false;
}

static bool register_and_number(const Dwarf_Op *op, uint8_t *reg, int64_t *number)
{
	if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31) {
		*reg = (uint8_t)(op->atom - DW_OP_breg0);
		*number = (int64_t)op->number;
		return true;
	}
	if (op->atom != DW_OP_bregx)
		return false;
	*reg = (uint8_t)op->number;
	*number = (int64_t)op->number2;
	return true;
}

/* What DW_OP_fbreg counts from. */
static bool base_of_frame(struct local *l, uint8_t *reg, int64_t *number)
{
	struct frame_site cfa;
	Dwarf_Attribute attr;
	Dwarf_Op *ops;
	size_t n;
	int i = l->count;

	while (i-- > 0 && dwarf_tag(&l->scopes[i]) != DW_TAG_subprogram)
		;
	if (i < 0 || !dwarf_attr_integrate(&l->scopes[i], DW_AT_frame_base, &attr) ||
	    dwarf_getlocation_addr(&attr, l->pc, &ops, &n, 1) != 1 || n != 1)
		return false;
	*number = 0;
	if (ops[0].atom >= DW_OP_reg0 && ops[0].atom <= DW_OP_reg31) {
		*reg = (uint8_t)(ops[0].atom - DW_OP_reg0);
		return true;
	}
	if (ops[0].atom != DW_OP_call_frame_cfa)
		return register_and_number(&ops[0], reg, number);
	if (!frame_cfa_at(l->mod, l->address, &cfa))
		return false;
	*reg = cfa.reg;
	*number = cfa.add;
	return true;
}

/* In memory, at a distance from a register. */
static bool in_frame(struct local *l, Dwarf_Die *die, struct signature_value *out)
{
	Dwarf_Attribute attr;
	int64_t number = 0;
	uint8_t reg = 0;
	Dwarf_Op *ops;
	size_t n;

	if (!dwarf_attr_integrate(die, DW_AT_location, &attr) ||
	    dwarf_getlocation_addr(&attr, l->pc, &ops, &n, 1) != 1 || n != 1)
		return false;
	if (ops[0].atom == DW_OP_fbreg) {
		if (!base_of_frame(l, &reg, &number))
			return false;
		number += (int64_t)ops[0].number;
	} else if (!register_and_number(&ops[0], &reg, &number)) {
		return false;
	}
	out->where = SIGNATURE_FRAME;
	out->regs = 1;
	out->reg[0] = reg;
	out->stack = (uint64_t)number;
	return true;
}

/* A whole value in one register is like a parameter there, which paths can begin with. */
static void make_plain(struct signature_value *v)
{
	if (!signature_is_in_one_place(v) || v->piece[0].kind != SIGNATURE_PIECE_REGISTER)
		return;
	v->where = SIGNATURE_REGISTERS;
	v->regs = 1;
	v->reg[0] = v->piece[0].reg;
}

/* A static variable of the function is found as a global is. */
static bool is_static(Dwarf_Die *die, Dwarf_Addr pc)
{
	Dwarf_Attribute attr;
	Dwarf_Op *ops;
	bool is_address;
	size_t n;

	if (!dwarf_attr_integrate(die, DW_AT_location, &attr) ||
	    dwarf_getlocation_addr(&attr, pc, &ops, &n, 1) != 1 || !n)
		return false;
	die_first_number(&attr, ops, &is_address);
	return is_address;
}

/* False: there is no debug information. */
static bool local_at(struct symbols *s, const struct code_site *site, struct local *l)
{
	Dwarf_Addr bias;
	Dwarf_Die whole;

	*l = (struct local){ .mod = dwfl_addrmodule(s->dwfl, site->address),
			     .address = site->address };
	Dwarf_Die *unit = unit_at(l->mod, site->address, &bias);
	if (!unit)
		return false;
	l->pc = site->address - bias;
	l->count = die_scopes(signature_whole_unit(unit, &whole), l->pc, l->scopes);
	leave_inlined_calls(l, site);
	return true;
}

bool signature_in_frame(struct symbols *s, const struct code_site *site, Dwarf_Die *die,
			struct signature_value *out)
{
	struct local l;

	return local_at(s, site, &l) && in_frame(&l, die, out);
}

bool signature_function_at(const struct code_site *site, Dwarf_Die *cu, Dwarf_Addr pc,
			   Dwarf_Die *out)
{
	struct local l = { .count = 0 };

	l.count = die_scopes(cu, pc, l.scopes);
	leave_inlined_calls(&l, site);
	return die_innermost_function(l.scopes, l.count, out);
}

int local_find(struct symbols *s, const struct code_site *site, const char *name,
	       struct signature_value *out, char *why, size_t n)
{
	struct local l;
	Dwarf_Die die;

	if (!local_at(s, site, &l))
		return -ENOENT;
	bool is_there = find_die(&l, name, &die);
	if (is_there ? is_static(&die, l.pc) : !l.is_left_out)
		return -ENOENT;
	if (is_there) {
		*out = (struct signature_value){ .name = clean_die_name(&die),
						 .type = type_of_attribute(s, &die) };
		if (signature_by_location(out, &die, l.pc)) {
			make_plain(out);
			return 0;
		}
		if (in_frame(&l, &die, out))
			return 0;
	}
	snprintf(
		why, n,
		"'%.100s' has no location at this instruction: the compiler optimised it away; choose "
		"another line, or build with -O0",
		name);
	return -EINVAL;
}

static bool is_in_memory(struct symbols *s, const struct code_site *site, const char *name)
{
	struct signature_value v;
	char why[400];

	return !local_find(s, site, name, &v, why, sizeof(why)) &&
	       (v.where == SIGNATURE_STACK || v.where == SIGNATURE_FRAME);
}

bool local_in_memory_later(struct symbols *s, const struct code_site *site, const char *name,
			   char *line, size_t n)
{
	struct code_site later = { .kind = CODE_SITE_LINE, .name = line };
	struct place first;
	struct place p;

	if (!symbols_frames(s, site->address, &first, 1) || !first.function || !first.line)
		return false;
	for (uint64_t offset = 1; offset < ENTRY_BYTES; offset++) {
		later.address = site->address + offset;
		later.function = site->address;
		if (!symbols_frames(s, later.address, &p, 1) || !p.function ||
		    strcmp(p.function, first.function) != 0)
			return false;
		if (!p.file || !p.line || p.line == first.line)
			continue;
		const char *slash = strrchr(p.file, '/');
		snprintf(line, n, "%s:%d", slash ? slash + 1 : p.file, p.line);
		if (is_in_memory(s, &later, name))
			return true;
		first.line = p.line;
	}
	return false;
}
