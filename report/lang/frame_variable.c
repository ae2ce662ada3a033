/* SPDX-License-Identifier: MIT */
/* frame_variable.c - see frame_variable.h: the debug information of a variable, and its address. */
#include "report/lang/frame_variable.h"

#include "report/dwarf/dies.h"
#include "report/dwarf/instruction.h"
#include "report/dwarf/missing.h"
#include "report/dwarf/types_priv.h"
#include "report/lang/frame_edges.h"
#include "report/lang/signature_priv.h"
#include "report/safe/clean.h"

#include <dwarf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 64 /* of blocks within blocks */
#define SCAN_BYTES 64
#define SP_REGISTER 7
#define RETURN_BYTES 8 /* the return address, below the CFA */

struct finding {
	struct symbols *s;
	Dwfl_Module *mod;
	Dwarf_Addr bias;
	const struct code_site *site;
	const char *name;
	Dwarf_Die physical; /* the function whose frame it is */
	struct frame_variable **out;
	size_t *count;
	bool is_known; /* a variable of that name was found */
	char *why;
	size_t n;
};

/* Where a location expression leads. */
struct spot_in_frame {
	bool is_in_memory;
	bool by_cfa; /* at CFA + offset, else register + offset */
	uint8_t reg;
	int64_t offset;
};

__attribute__((format(printf, 2, 3))) static int refuse(struct finding *f, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(f->why, f->n, format, args);
	va_end(args);
	return -EINVAL;
}

bool frame_cfa_at(Dwfl_Module *mod, uint64_t address, struct frame_site *out)
{
	Dwarf_Addr bias = 0;
	Dwarf_CFI *cfi = dwfl_module_eh_cfi(mod, &bias);
	Dwarf_Frame *frame = NULL;
	Dwarf_Op *ops;
	size_t n = 0;

	if (!cfi || dwarf_cfi_addrframe(cfi, address - bias, &frame)) {
		cfi = dwfl_module_dwarf_cfi(mod, &bias);
		if (!cfi || dwarf_cfi_addrframe(cfi, address - bias, &frame))
			return false;
	}
	bool is_simple = !dwarf_frame_cfa(frame, &ops, &n) && n == 1 && ops[0].atom == DW_OP_bregx;
	if (is_simple)
		*out = (struct frame_site){ .address = address,
					    .reg = (uint8_t)ops[0].number,
					    .add = (int64_t)ops[0].number2 };
	free(frame);
	return is_simple;
}

static bool by_register(const Dwarf_Op *op, struct spot_in_frame *out)
{
	if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31) {
		out->reg = (uint8_t)(op->atom - DW_OP_breg0);
		out->offset = (int64_t)op->number;
		return true;
	}
	if (op->atom != DW_OP_bregx)
		return false;
	out->reg = (uint8_t)op->number;
	out->offset = (int64_t)op->number2;
	return true;
}

/* The frame base of the function: the CFA itself, or a register. */
static bool frame_base(const struct finding *f, struct spot_in_frame *out)
{
	Dwarf_Die physical = f->physical;
	Dwarf_Attribute attr;
	Dwarf_Op *ops;
	size_t n;

	if (!dwarf_attr_integrate(&physical, DW_AT_frame_base, &attr) ||
	    dwarf_getlocation(&attr, &ops, &n) || n != 1)
		return false;
	if (ops[0].atom == DW_OP_call_frame_cfa) {
		out->by_cfa = true;
		return true;
	}
	if (ops[0].atom >= DW_OP_reg0 && ops[0].atom <= DW_OP_reg31) {
		out->reg = (uint8_t)(ops[0].atom - DW_OP_reg0);
		return true;
	}
	return by_register(&ops[0], out);
}

static void spot_of(const struct finding *f, const Dwarf_Op *ops, size_t n,
		    struct spot_in_frame *out)
{
	memset(out, 0, sizeof(*out));
	if (n != 1)
		return;
	if (ops[0].atom == DW_OP_fbreg) {
		out->is_in_memory = frame_base(f, out);
		out->offset += (int64_t)ops[0].number;
		return;
	}
	out->is_in_memory = by_register(&ops[0], out);
}

/*
 * From a register to the CFA: where the function's body has it as the base, the rest is constant.
 */
static bool to_cfa(const struct finding *f, const struct frame_range *range,
		   struct spot_in_frame *spot)
{
	struct frame_site cfa;
	uint64_t at = spot->reg == SP_REGISTER ? range->start + (range->end - range->start) / 2 :
						 range->start;

	if (spot->by_cfa)
		return true;
	for (int i = 0; i < SCAN_BYTES && at < range->end; i++, at++) {
		if (!frame_cfa_at(f->mod, at, &cfa) || cfa.reg != spot->reg)
			continue;
		spot->offset -= cfa.add;
		spot->by_cfa = true;
		return true;
	}
	return false;
}

static int compare_ranges(const void *a, const void *b)
{
	const struct frame_range *x = a;
	const struct frame_range *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

bool frame_ranges_add(struct frame_ranges *to, uint64_t start, uint64_t end)
{
	if (start >= end)
		return true;
	struct frame_range *more = reallocarray(to->range, to->count + 1, sizeof(*more));
	if (!more)
		return false;
	to->range = more;
	more[to->count++] = (struct frame_range){ .start = start, .end = end };
	return true;
}

static int read_ranges(const struct finding *f, Dwarf_Die *die, struct frame_ranges *out)
{
	Dwarf_Addr base;
	Dwarf_Addr start;
	Dwarf_Addr end;
	ptrdiff_t offset = 0;

	while ((offset = dwarf_ranges(die, offset, &base, &start, &end)) > 0)
		if (!frame_ranges_add(out, start + f->bias, end + f->bias))
			return -ENOMEM;
	if (out->count)
		qsort(out->range, out->count, sizeof(*out->range), compare_ranges);
	return out->count ? 0 : -ENOENT;
}

/* The parts of the scope in which the location is true. */
static int cut_to(const struct frame_ranges *scope, uint64_t start, uint64_t end,
		  struct frame_ranges *out)
{
	for (size_t i = 0; i < scope->count; i++) {
		const struct frame_range *r = &scope->range[i];
		if (!frame_ranges_add(out, start > r->start ? start : r->start,
				      end < r->end ? end : r->end))
			return -ENOMEM;
	}
	return 0;
}

/* Where the variable is in memory, which is one location. */
static int read_location(struct finding *f, Dwarf_Attribute *attr, const struct frame_ranges *scope,
			 struct frame_variable *v, struct frame_ranges *live)
{
	Dwarf_Addr base;
	Dwarf_Addr start;
	Dwarf_Addr end;
	Dwarf_Op *ops;
	size_t n;
	ptrdiff_t at = 0;
	bool is_placed = false;

	while ((at = dwarf_getlocations(attr, at, &base, &start, &end, &ops, &n)) > 0) {
		struct frame_ranges part = { 0 };
		struct spot_in_frame spot;
		bool is_everywhere = end == (Dwarf_Addr)-1;
		spot_of(f, ops, n, &spot);
		if (!spot.is_in_memory)
			continue;
		int err = cut_to(scope, is_everywhere ? 0 : start + f->bias,
				 is_everywhere ? UINT64_MAX : end + f->bias, &part);
		bool is_by_cfa = !err && part.count && to_cfa(f, &part.range[0], &spot);
		for (size_t i = 0; !err && i < part.count; i++)
			if (!frame_ranges_add(live, part.range[i].start, part.range[i].end))
				err = -ENOMEM;
		bool is_empty = !part.count;
		free(part.range);
		if (err)
			return err;
		if (is_empty)
			continue;
		if (!is_by_cfa)
			return refuse(
				f,
				"the frame of %s is aligned at run time, so '%s' has no fixed location in it",
				f->site->name, f->name);
		if (is_placed && spot.offset != v->offset)
			return refuse(f, "'%s' of %s moves: its location in the frame changes",
				      f->name, f->site->name);
		v->offset = spot.offset;
		is_placed = true;
	}
	if (!is_placed)
		return refuse(f,
			      "'%s' of %s is in a register, and a debug register watches memory; "
			      "print it with trapline break FILE:LINE, or build with -O0",
			      f->name, f->site->name);
	qsort(live->range, live->count, sizeof(*live->range), compare_ranges);
	return 0;
}

static bool is_same(const struct frame_ranges *a, const struct frame_ranges *b)
{
	return a->count == b->count && !memcmp(a->range, b->range, a->count * sizeof(*a->range));
}

/* One site at the entry of the function, whose returns are found by its return instructions. */
static int whole_life(struct finding *f, struct frame_variable *v)
{
	v->is_whole = true;
	v->entries.site = calloc(1, sizeof(*v->entries.site));
	if (!v->entries.site)
		return -ENOMEM;
	v->entries.count = 1;
	v->entries.site[0] = (struct frame_site){ .address = f->site->address,
						  .reg = SP_REGISTER,
						  .add = RETURN_BYTES };
	return 0;
}

/* An array whose length is computed: the frame has a pointer to it, or a register has. */
static bool is_sized_at_run_time(Dwarf_Die *die)
{
	Dwarf_Attribute attr;
	Dwarf_Die type;
	Dwarf_Die part;

	if (!dwarf_attr_integrate(die, DW_AT_type, &attr) || !dwarf_formref_die(&attr, &type) ||
	    dwarf_peel_type(&type, &type) || dwarf_tag(&type) != DW_TAG_array_type ||
	    dwarf_child(&type, &part))
		return false;
	do {
		bool has_count = dwarf_attr(&part, DW_AT_count, &attr) ||
				 dwarf_attr(&part, DW_AT_upper_bound, &attr);
		Dwarf_Word number;

		if (dwarf_tag(&part) == DW_TAG_subrange_type && has_count &&
		    dwarf_formudata(&attr, &number))
			return true;
	} while (!dwarf_siblingof(&part, &part));
	return false;
}

static int place_variable(struct finding *f, Dwarf_Die *die, Dwarf_Die *block,
			  struct frame_variable *v)
{
	struct frame_ranges scope = { 0 };
	struct frame_ranges code = { 0 };
	struct frame_ranges live = { 0 };
	Dwarf_Attribute attr;
	int err = read_ranges(f, block, &scope);

	if (!err)
		err = read_ranges(f, &f->physical, &code);
	if (err == -ENOENT)
		refuse(f, "the debug information does not have the code of %s", f->site->name);
	if (!err && dwarf_attr_integrate(die, DW_AT_const_value, &attr))
		err = refuse(f, "'%s' of %s is a constant in the code: it has no memory", f->name,
			     f->site->name);
	if (!err && !dwarf_attr(die, DW_AT_location, &attr))
		err = refuse(f, "'%s' of %s is optimised away: build with -O0, or choose another",
			     f->name, f->site->name);
	if (!err && is_sized_at_run_time(die))
		err = refuse(f,
			     "'%s' of %s has a length that is chosen at run time, and no fixed "
			     "location; give an address and a length, as in 0x...:4",
			     f->name, f->site->name);
	if (!err)
		err = read_location(f, &attr, &scope, v, &live);
	v->type = type_of_attribute(f->s, die);
	if (!err && is_same(&live, &code) && f->site->kind == CODE_SITE_FUNCTION)
		err = whole_life(f, v);
	else if (!err)
		err = frame_edges_find(f->s, f->mod, &code, &live, v, f->why, f->n);
	free(scope.range);
	free(code.range);
	free(live.range);
	return err;
}

static int add_variable(struct finding *f, Dwarf_Die *die, Dwarf_Die *block)
{
	struct frame_variable v = { 0 };

	f->is_known = true;
	int err = place_variable(f, die, block, &v);
	struct frame_variable *more = err ? NULL :
					    reallocarray(*f->out, *f->count + 1, sizeof(*more));
	if (!more) {
		free(v.entries.site);
		free(v.exits.site);
		return err ? err : -ENOMEM;
	}
	*f->out = more;
	more[(*f->count)++] = v;
	return 0;
}

/* The variables of the function itself: what it inlined has names of its own. */
static int search(struct finding *f, Dwarf_Die *block, unsigned int depth)
{
	Dwarf_Die die;
	int err = 0;

	if (depth > DEPTH_MAX || dwarf_child(block, &die))
		return 0;
	do {
		const char *name;
		switch (dwarf_tag(&die)) {
		case DW_TAG_variable:
		case DW_TAG_formal_parameter:
			name = clean_die_name(&die);
			if (name && !strcmp(name, f->name) && !die_flag(&die, DW_AT_declaration))
				err = add_variable(f, &die, block);
			break;
		case DW_TAG_lexical_block:
			err = search(f, &die, depth + 1);
			break;
		default:
			break;
		}
	} while (!err && !dwarf_siblingof(&die, &die));
	return err;
}

static bool find_physical(struct finding *f, Dwarf_Die *die)
{
	Dwarf_Die scopes[DIE_SCOPES_MAX];
	Dwarf_Die cu;

	f->physical = *die;
	if (dwarf_tag(die) == DW_TAG_subprogram)
		return true;
	if (!dwarf_diecu(die, &cu, NULL, NULL))
		return false;
	int count = die_scopes(&cu, f->site->address - f->bias, scopes);
	for (int i = 0; i < count; i++) {
		if (dwarf_tag(&scopes[i]) != DW_TAG_subprogram)
			continue;
		f->physical = scopes[i];
		return true;
	}
	return false;
}

int frame_variable_find(struct symbols *s, const struct code_site *site, const char *name,
			struct frame_variable **out, size_t *count, char *why, size_t n)
{
	struct finding f = {
		.s = s, .site = site, .name = name, .out = out, .count = count, .why = why, .n = n
	};
	Dwarf_Die die;

	why[0] = '\0';
	f.mod = dwfl_addrmodule(s->dwfl, site->address);
	if (!f.mod || !signature_die(s, site, &die, &f.bias)) {
		struct missing_dwarf missing;

		missing_dwarf_of(s, f.mod ? symbols_module_name(f.mod) : NULL, &missing);
		snprintf(why, n, "%s %s: %s", site->name, missing.cause, missing.remedy);
		return -ENOENT;
	}
	if (!find_physical(&f, &die))
		return refuse(&f, "the function that contains the copy of %s is not known",
			      site->name);
	int err = search(&f, &die, 0);
	if (!err && !f.is_known) {
		snprintf(why, n, "%s has no variable '%s'", site->name, name);
		return -ENOENT;
	}
	return err;
}

void frame_variables_free(struct frame_variable *variables, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(variables[i].entries.site);
		free(variables[i].exits.site);
	}
	free(variables);
}
