/* SPDX-License-Identifier: MIT */
/*
 * signature.c - see signature.h.
 *
 * At the first instruction of a function the calling convention says where arguments are, whatever
 * the compiler does with them afterwards; debug information for unoptimised code says where they
 * will be after the prologue, which is no use here. Only copies that the compiler made for itself
 * (f.isra.0, inlined ones) keep to no convention: there its location lists are asked.
 */
#include "report/lang/signature_priv.h"
#include "report/safe/clean.h"

#include "report/dwarf/dies.h"
#include "report/dwarf/types_priv.h"
#include "report/dwarf/unit.h"
#include "report/lang/value.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
static const uint8_t argument_registers[] = { 5, 4, 1, 2, 8, 9 };
static const uint8_t result_registers[] = { 0, 1 };
#define VECTOR_ARGUMENTS 8
#define STACK_FIRST 8 /* behind the return address */
#define HIDDEN_RESULT_TAKES_ARGUMENT 1
#else
static const uint8_t argument_registers[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
static const uint8_t result_registers[] = { 0, 1 };
#define VECTOR_ARGUMENTS 8
#define STACK_FIRST 0
#define HIDDEN_RESULT_TAKES_ARGUMENT 0 /* x8 */
#endif

#define ARGUMENT_REGISTERS (sizeof(argument_registers) / sizeof(argument_registers[0]))

int signature_argument_register(unsigned int n)
{
	return n < ARGUMENT_REGISTERS ? argument_registers[n] : -1;
}

/* How a type travels: so many registers, each general or vector; or in memory. */
struct passing {
	bool in_memory;
	bool is_unknown;
	unsigned int eightbytes;
	bool is_general[2];
};

static int leaf_visit(const struct value_leaf *leaf, void *arg)
{
	struct passing *p = arg;
	uint64_t at = leaf->offset / 8;

	if (!leaf->type || leaf->type->kind == TYPE_UNKNOWN)
		p->is_unknown = true;
	else if (at < 2 && leaf->type->kind != TYPE_FLOAT)
		p->is_general[at] = true;
	else if (leaf->type->kind == TYPE_FLOAT && leaf->len > 8)
		p->in_memory = true; /* long double */
	return 0;
}

static struct passing passing_of(const struct type *t, Dwarf_Die *type_die)
{
	struct passing p = { 0 };
	uint64_t convention;

	p.eightbytes = (unsigned int)((t->size + 7) / 8);
	switch (t->kind) {
	case TYPE_STRUCT:
	case TYPE_UNION:
		/* C++: what has a copy constructor of its own is passed by its address. */
		if (type_die && die_number(type_die, DW_AT_calling_convention, &convention) &&
		    convention == DW_CC_pass_by_reference)
			p.in_memory = p.is_unknown = true;
		if (t->size > 16 || !t->size)
			p.in_memory = true;
		else
			value_leaves(t, 0, t->size, leaf_visit, &p);
		break;
	case TYPE_FLOAT:
		p.in_memory = t->size > 8;
		break;
	case TYPE_UNKNOWN:
		p.is_unknown = t->size > 8;
		p.is_general[0] = true;
		break;
	default:
		p.is_general[0] = true;
		p.is_general[1] = t->size > 8;
		p.in_memory = t->size > 16;
	}
	return p;
}

static void place_argument(struct convention *c, struct signature_value *v, Dwarf_Die *type_die)
{
	struct passing p = passing_of(v->type, type_die);
	unsigned int general = p.is_general[0] + (p.eightbytes > 1 && p.is_general[1]);
	unsigned int vector = (p.eightbytes > 2 ? 2 : p.eightbytes) - general;

	v->where = SIGNATURE_GONE;
	if (c->is_lost)
		return;
	if (p.is_unknown && p.in_memory) { /* by its address, in a register */
		general = 1;
		vector = 0;
	} else if (p.is_unknown) {
		c->is_lost = true;
		return;
	}
	bool fits = c->general + general <= ARGUMENT_REGISTERS &&
		    c->vector + vector <= VECTOR_ARGUMENTS;
	if ((p.in_memory && !p.is_unknown) || !fits) {
		v->where = SIGNATURE_STACK;
		v->stack = STACK_FIRST + c->stack;
		c->stack += p.is_unknown ? 8 : 8 * (uint64_t)p.eightbytes;
		return;
	}
	v->where = vector	? SIGNATURE_VECTOR :
		   p.is_unknown ? SIGNATURE_MEMORY :
				  SIGNATURE_REGISTERS;
	for (unsigned int i = 0; i < general; i++)
		v->reg[v->regs++] = argument_registers[c->general + i];
	v->vector = (uint8_t)c->vector;
	c->general += general;
	c->vector += vector;
}

static void place_result(struct convention *c, struct signature_value *v, Dwarf_Die *type_die)
{
	struct passing p = passing_of(v->type, type_die);

	v->where = SIGNATURE_REGISTERS;
	if (v->type->kind == TYPE_VOID)
		return;
	if (v->type->kind == TYPE_FLOAT && p.in_memory) {
		v->where = SIGNATURE_VECTOR; /* long double: the x87 stack */
		v->vector = SIGNATURE_X87;
		return;
	}
	if (p.in_memory) {
		v->where = SIGNATURE_MEMORY; /* its address comes back */
		v->reg[v->regs++] = result_registers[0];
		c->general += HIDDEN_RESULT_TAKES_ARGUMENT;
		return;
	}
	for (unsigned int i = 0; i < p.eightbytes && i < 2; i++) {
		if (!p.is_general[i])
			v->where = SIGNATURE_VECTOR;
		v->reg[v->regs++] = result_registers[i];
	}
	if (p.is_unknown)
		v->where = SIGNATURE_GONE;
}

/* Where the compiler says it is at pc, as far as registers and constants go. */
static void place_by_location(struct signature_value *v, Dwarf_Die *die, Dwarf_Addr pc)
{
	v->where = SIGNATURE_GONE;
	if (!signature_by_location(v, die, pc) || v->where != SIGNATURE_PIECES ||
	    v->piece_count != 1 || v->piece[0].offset)
		return;
	/* The whole is in one place, which conditions can use too. */
	if (v->piece[0].kind == SIGNATURE_PIECE_REGISTER) {
		v->where = SIGNATURE_REGISTERS;
		v->reg[v->regs++] = v->piece[0].reg;
	} else if (v->piece[0].kind == SIGNATURE_PIECE_CONSTANT) {
		v->where = SIGNATURE_CONSTANT;
		v->constant = v->piece[0].value;
	}
}

static bool type_die_of(Dwarf_Die *die, Dwarf_Die *out)
{
	Dwarf_Attribute attr;

	if (!dwarf_attr_integrate(die, DW_AT_type, &attr) || !dwarf_formref_die(&attr, out))
		return false;
	while (dwarf_tag(out) == DW_TAG_typedef || dwarf_tag(out) == DW_TAG_const_type ||
	       dwarf_tag(out) == DW_TAG_volatile_type)
		if (!dwarf_attr_integrate(out, DW_AT_type, &attr) || !dwarf_formref_die(&attr, out))
			return false;
	return true;
}

struct reading {
	struct symbols *s;
	struct signature *signature;
	struct convention convention;
	Dwarf_Addr pc;
	enum reading_how {
		BY_CONVENTION,
		BY_LOCATION,
		AS_GO,
		AS_RUST
	} how;
};

/* A number in one register is like one of C: conditions and texts know such values. */
static void make_simple(struct signature_value *v)
{
	const struct signature_piece *p = &v->piece[0];

	if (v->where != SIGNATURE_PIECES || v->piece_count != 1 || p->offset ||
	    p->kind != SIGNATURE_PIECE_REGISTER || type_has_members(v->type))
		return;
	v->where = SIGNATURE_REGISTERS;
	v->regs = 1;
	v->reg[0] = p->reg;
}

static void place_parameter(struct reading *r, struct signature_value *v, Dwarf_Die *die)
{
	struct signature_value by_location = *v;
	Dwarf_Die type;

	switch (r->how) {
	case BY_LOCATION:
		place_by_location(v, die, r->pc);
		break;
	case AS_GO:
		signature_go_place(&r->convention, v);
		/* Where both speak of registers they agree, or the function keeps to no convention. */
		if (signature_by_location(&by_location, die, r->pc))
			*v = by_location;
		break;
	case AS_RUST:
		signature_rust_argument(&r->convention, v);
		break;
	default:
		place_argument(&r->convention, v, type_die_of(die, &type) ? &type : NULL);
	}
	make_simple(v);
}

static struct signature_value *value_add(struct signature_value **list, size_t *count)
{
	struct signature_value *more = reallocarray(*list, *count + 1, sizeof(*more));

	if (!more)
		return NULL;
	*list = more;
	return &more[(*count)++];
}

static int add_go_result(struct reading *r, const struct signature_value *value)
{
	struct signature *sig = r->signature;
	struct signature_value *v = &sig->result;

	if (!sig->is_go) {
		sig->is_go = true;
		signature_go_begin_results(&r->convention);
	} else {
		v = value_add(&sig->more, &sig->more_count);
	}
	if (!v)
		return -ENOMEM;
	*v = *value;
	signature_go_place(&r->convention, v);
	make_simple(v);
	return 0;
}

static int add_parameter(struct reading *r, Dwarf_Die *die)
{
	struct signature *sig = r->signature;
	struct signature_value value = { .name = clean_die_name(die),
					 .type = type_of_attribute(r->s, die) };

	if (r->how == AS_GO && die_flag(die, DW_AT_variable_parameter))
		return add_go_result(r, &value);
	struct signature_value *v = value_add(&sig->parameter, &sig->count);
	if (!v)
		return -ENOMEM;
	*v = value;
	place_parameter(r, v, die);
	return 0;
}

static int read_parameters(struct reading *r, Dwarf_Die *function)
{
	Dwarf_Die die;
	int err = 0;

	if (dwarf_child(function, &die))
		return 0;
	do {
		if (dwarf_tag(&die) == DW_TAG_formal_parameter)
			err = add_parameter(r, &die);
		else if (dwarf_tag(&die) == DW_TAG_unspecified_parameters)
			r->signature->is_variadic = true;
	} while (!err && !dwarf_siblingof(&die, &die));
	return err;
}

/* Debug information of optimised code has lists: where each parameter is at which instruction. */
static bool has_locations_by_code(Dwarf_Die *function)
{
	Dwarf_Die die;
	Dwarf_Attribute attr;
	Dwarf_Op *ops;
	size_t n;

	if (dwarf_child(function, &die))
		return false;
	do {
		if (dwarf_tag(&die) != DW_TAG_formal_parameter)
			continue;
		if (!dwarf_attr_integrate(&die, DW_AT_location, &attr) ||
		    dwarf_getlocation(&attr, &ops, &n))
			return true;
	} while (!dwarf_siblingof(&die, &die));
	return false;
}

/*
 * LLVM takes parameters away from functions that it knows all calls of: those of Rust, and the static ones
 * of clang. GCC gives such functions names of their own.
 */
static enum reading_how how_to_read(Dwarf_Die *die, const struct code_site *site)
{
	Dwarf_Die cu;
	Dwarf_Attribute attr;
	int language = dwarf_diecu(die, &cu, NULL, NULL) ? dwarf_srclang(&cu) : -1;
	const char *producer = language >= 0 && dwarf_attr(&cu, DW_AT_producer, &attr) ?
				       clean_attribute(&attr) :
				       "";

	if (site->kind != CODE_SITE_FUNCTION || site->is_clone)
		return BY_LOCATION;
	if (language == DW_LANG_Go)
		return producer && strstr(producer, "regabi") ? AS_GO : BY_LOCATION;
	bool is_rust = language == DW_LANG_Rust;
	bool is_private = is_rust ||
			  (producer && strstr(producer, "clang") && !die_flag(die, DW_AT_external));
	if (is_private && has_locations_by_code(die))
		return BY_LOCATION;
	return is_rust ? AS_RUST : BY_CONVENTION;
}

/* The register of a result's address is free, or the compiler took that argument away. */
static void check_hidden(struct signature *signature)
{
	for (size_t i = 0; i < signature->count; i++) {
		const struct signature_value *v = &signature->parameter[i];
		bool uses = v->regs && v->reg[0] == argument_registers[0];
		for (size_t k = 0; k < v->piece_count; k++)
			uses = uses || (v->piece[k].kind == SIGNATURE_PIECE_REGISTER &&
					v->piece[k].reg == argument_registers[0]);
		if (uses)
			signature->result.where = SIGNATURE_GONE;
	}
}

/* By the line table, which the assembler writes too. Its functions have no parameters in DWARF. */
static bool is_assembler(struct symbols *s, const struct code_site *site)
{
	struct place p;

	symbols_place(s, site->address, &p);
	size_t n = p.file ? strlen(p.file) : 0;
	return n > 2 && !strcmp(p.file + n - 2, ".s") && symbols_is_go(s, site->address);
}

static int read_signature(struct symbols *s, Dwarf_Die *die, const struct code_site *site,
			  Dwarf_Addr pc, struct signature *out)
{
	struct reading r = { .s = s, .signature = out, .pc = pc, .how = how_to_read(die, site) };
	Dwarf_Die cu;
	Dwarf_Die type;

	int language = dwarf_diecu(die, &cu, NULL, NULL) ? dwarf_srclang(&cu) : -1;
	out->is_whole = language == DW_LANG_Go || language == DW_LANG_Rust;
	out->result.type = type_of_attribute(s, die);
	if (language == DW_LANG_Rust)
		signature_rust_result(&r.convention, &out->result);
	else if (language != DW_LANG_Go)
		place_result(&r.convention, &out->result, type_die_of(die, &type) ? &type : NULL);
	make_simple(&out->result);
	int err = read_parameters(&r, die);
	if (!err && language == DW_LANG_Rust && out->result.where == SIGNATURE_MEMORY)
		check_hidden(out);
	return err;
}

#define DEPTH_MAX 64 /* of namespaces and blocks: damaged DWARF must not take the stack */

/* Of a function in several parts, such as one for exceptions, the first has the entry. */
static bool begins_at(Dwarf_Die *die, Dwarf_Addr pc)
{
	Dwarf_Addr base;
	Dwarf_Addr start;
	Dwarf_Addr end;

	return dwarf_tag(die) == DW_TAG_subprogram &&
	       (!dwarf_lowpc(die, &start) || !dwarf_entrypc(die, &start) ||
		dwarf_ranges(die, 0, &base, &start, &end) > 0) &&
	       start == pc;
}

/* The function that begins at pc. */
static bool entry_at(Dwarf_Die *parent, Dwarf_Addr pc, unsigned int depth, Dwarf_Die *out)
{
	Dwarf_Die die;

	if (depth > DEPTH_MAX || dwarf_child(parent, &die))
		return false;
	do {
		if (begins_at(&die, pc)) {
			*out = die;
			return true;
		}
		switch (dwarf_tag(&die)) {
		case DW_TAG_namespace:
		case DW_TAG_module:
		case DW_TAG_structure_type:
		case DW_TAG_class_type:
		case DW_TAG_subprogram:
		case DW_TAG_lexical_block:
			if (entry_at(&die, pc, depth + 1, out))
				return true;
			break;
		default:
			break;
		}
	} while (!dwarf_siblingof(&die, &die));
	return false;
}

/* libdw's scopes of a place leave out the function that an inlined copy is in. */
static bool function_die(const struct code_site *site, Dwarf_Die *cu, Dwarf_Addr pc, Dwarf_Die *out)
{
	if (site->die)
		return dwarf_offdie(dwarf_cu_getdwarf(cu->cu), site->die, out) != NULL;
	if (site->kind == CODE_SITE_FUNCTION)
		return entry_at(cu, pc, 0, out);
	return die_function_at(cu, pc, out);
}

Dwarf_Die *signature_whole_unit(Dwarf_Die *unit, Dwarf_Die *split)
{
	uint8_t type;

	*split = (Dwarf_Die){ 0 };
	if (dwarf_cu_info(unit->cu, NULL, &type, NULL, split, NULL, NULL, NULL) || !split->addr)
		return unit;
	return split;
}

bool signature_die(struct symbols *s, const struct code_site *site, Dwarf_Die *out,
		   Dwarf_Addr *bias)
{
	bool is_entry = site->kind == CODE_SITE_FUNCTION;
	uint64_t at = is_entry ? site->function : site->address;
	Dwfl_Module *mod = dwfl_addrmodule(s->dwfl, at);
	Dwarf_Die *found = unit_at(mod, at, bias);
	Dwarf_Die whole;

	/* The index first: a library has units by the thousand. */
	if (found && function_die(site, signature_whole_unit(found, &whole), at - *bias, out))
		return true;
	Dwarf *dwarf = mod ? dwfl_module_getdwarf(mod, bias) : NULL;
	Dwarf_CU *cu = NULL;
	Dwarf_Die unit;
	Dwarf_Die split;

	while (dwarf && !dwarf_get_units(dwarf, cu, &cu, NULL, NULL, &unit, &split))
		if (dwarf_haspc(&unit, at - *bias) > 0 &&
		    function_die(site, split.addr ? &split : &unit, at - *bias, out))
			return true;
	return false;
}

int signature_find(struct symbols *s, const struct code_site *site, struct signature **out)
{
	Dwarf_Addr bias;
	Dwarf_Die die;

	if (is_assembler(s, site) || !signature_die(s, site, &die, &bias))
		return -ENOENT;
	struct signature *signature = calloc(1, sizeof(*signature));
	int err = signature ? read_signature(s, &die, site, site->address - bias, signature) :
			      -ENOMEM;
	if (err)
		signature_free(signature);
	else
		*out = signature;
	return err;
}

void signature_free(struct signature *signature)
{
	if (!signature)
		return;
	free(signature->parameter);
	free(signature->more);
	free(signature);
}
