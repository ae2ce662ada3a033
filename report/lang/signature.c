/* SPDX-License-Identifier: MIT */
/*
 * signature.c - see signature.h.
 *
 * At the first instruction of a function the calling convention states where arguments are, as long
 * as nothing in the object contradicts it. Debug information for unoptimised code states where they
 * will be after the prologue, which is of no use here. Functions that the compiler changed
 * (f.isra.0, inlined ones, local ones of LLVM) or that have a convention of their own are read by
 * location lists alone.
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

/* Where the compiler states it is at pc, as far as registers and constants go. */
static void place_by_location(struct signature_value *v, Dwarf_Die *die, Dwarf_Addr pc)
{
	v->where = SIGNATURE_GONE;
	if (!signature_by_location(v, die, pc) || !signature_is_in_one_place(v))
		return;
	/* The whole is in one location, which conditions can use too. */
	if (v->piece[0].kind == SIGNATURE_PIECE_REGISTER) {
		v->where = SIGNATURE_REGISTERS;
		v->reg[v->regs++] = v->piece[0].reg;
	} else if (v->piece[0].kind == SIGNATURE_PIECE_CONSTANT) {
		v->where = SIGNATURE_CONSTANT;
		v->constant = v->piece[0].value;
	} else if (v->piece[0].kind == SIGNATURE_PIECE_VECTOR) {
		v->where = SIGNATURE_VECTOR;
		v->vector = v->piece[0].reg;
		v->vectors = 1;
	}
}

/* It is somewhere, by an expression that is more than a location. */
static bool has_location(Dwarf_Die *die, Dwarf_Addr pc)
{
	Dwarf_Attribute attr;
	Dwarf_Op *ops;
	size_t n;

	return dwarf_attr_integrate(die, DW_AT_location, &attr) &&
	       dwarf_getlocation_addr(&attr, pc, &ops, &n, 1) == 1 && n;
}

struct reading {
	struct symbols *s;
	struct signature *signature;
	struct convention convention;
	const struct code_site *site;
	Dwarf_Die *function;
	Dwarf_Addr pc;
	struct signature_trust trust;
	bool is_optimised_by_llvm;
	bool is_contradicted; /* debug information has an argument where the convention has not */
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

	bool is_vector = p->kind == SIGNATURE_PIECE_VECTOR;

	if (!signature_is_in_one_place(v) || (p->kind != SIGNATURE_PIECE_REGISTER && !is_vector) ||
	    type_has_members(v->type))
		return;
	v->where = is_vector ? SIGNATURE_VECTOR : SIGNATURE_REGISTERS;
	v->regs = !is_vector;
	v->reg[0] = is_vector ? 0 : p->reg;
	v->vector = is_vector ? p->reg : 0;
	v->vectors = is_vector;
}

/* At an entry the frame is not there yet, but that of the caller is. */
static void place_in_memory(struct reading *r, struct signature_value *v, Dwarf_Die *die)
{
	bool is_entry = r->site->kind == CODE_SITE_FUNCTION;
	bool is_found = is_entry ? signature_on_callers_stack(v, r->function, die, r->pc) :
				   signature_in_frame(r->s, r->site, die, v);

	if (!is_found && has_location(die, r->pc))
		v->where = SIGNATURE_UNKNOWN;
}

static void place_by_convention(struct reading *r, struct signature_value *v, Dwarf_Die *die)
{
	signature_c_argument(&r->convention, v, die);
	if (!signature_agrees(v, r->function, die, r->pc))
		r->is_contradicted = true;
	/* What LLVM does not describe is not used, and calls in the same file may leave it out. */
	struct signature_value said = { .name = v->name, .type = v->type };
	if (r->is_optimised_by_llvm && !r->is_contradicted &&
	    signature_by_location(&said, die, r->pc))
		*v = said;
	else if (r->is_optimised_by_llvm && !dwarf_hasattr_integrate(die, DW_AT_location) &&
		 !dwarf_hasattr_integrate(die, DW_AT_const_value)) {
		v->where = SIGNATURE_GONE;
		v->regs = 0;
		v->piece_count = 0;
	}
}

static void place_parameter(struct reading *r, struct signature_value *v, Dwarf_Die *die)
{
	struct signature_value by_location = *v;

	switch (r->how) {
	case BY_LOCATION:
		place_by_location(v, die, r->pc);
		if (v->where == SIGNATURE_GONE)
			place_in_memory(r, v, die);
		break;
	case AS_GO:
		signature_go_place(&r->convention, v);
		/*
		 * Where both speak of registers they agree, or the function keeps to no convention.
		 */
		if (signature_by_location(&by_location, die, r->pc))
			*v = by_location;
		break;
	case AS_RUST:
		signature_rust_argument(&r->convention, v);
		break;
	default:
		place_by_convention(r, v, die);
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

static bool is_named(const struct signature_value *v, const char *name)
{
	return v->name && name && !strcmp(v->name, name);
}

/*
 * Some releases of Go describe a result twice that a deferred function changes. Two results have
 * one name only if it is "_".
 */
static bool is_result_again(const struct signature *sig, const char *name)
{
	bool again = is_named(&sig->result, name);

	for (size_t i = 0; i < sig->more_count; i++)
		again = again || is_named(&sig->more[i], name);
	return sig->is_go && again && strcmp(name, "_") != 0;
}

static int add_go_result(struct reading *r, const struct signature_value *value)
{
	struct signature *sig = r->signature;
	struct signature_value *v = &sig->result;

	if (is_result_again(sig, value->name))
		return 0;
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

/*
 * Debug information of optimised code has lists: where each parameter is at which instruction. One
 * value for the whole function is that of all callers, which may pass none.
 */
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
		    dwarf_getlocation(&attr, &ops, &n) ||
		    (n && ops[n - 1].atom == DW_OP_stack_value))
			return true;
	} while (!dwarf_siblingof(&die, &die));
	return false;
}

static bool is_in_frame(Dwarf_Die *parameter)
{
	Dwarf_Attribute attr;
	Dwarf_Op *ops;
	size_t n;

	return dwarf_attr_integrate(parameter, DW_AT_location, &attr) &&
	       !dwarf_getlocation(&attr, &ops, &n) && n == 1 && ops[0].atom == DW_OP_fbreg;
}

/*
 * Unoptimised code of LLVM has each parameter in the frame; that of C has a register for the frame.
 * An optimised function has some there too, whose address is taken.
 */
static bool is_optimised(Dwarf_Die *function)
{
	Dwarf_Die die;
	Dwarf_Attribute attr;
	Dwarf_Op *ops;
	bool has_parameters = false;
	size_t n;

	if (die_flag(function, DW_AT_call_all_calls) ||
	    die_flag(function, DW_AT_GNU_all_call_sites))
		return true;
	if (!dwarf_child(function, &die))
		do {
			if (dwarf_tag(&die) != DW_TAG_formal_parameter)
				continue;
			has_parameters = true;
			if (!is_in_frame(&die))
				return true;
		} while (!dwarf_siblingof(&die, &die));
	if (has_parameters)
		return false;
	return !dwarf_attr(function, DW_AT_frame_base, &attr) ||
	       dwarf_getlocation(&attr, &ops, &n) || n != 1 || ops[0].atom == DW_OP_reg7 ||
	       ops[0].atom == DW_OP_reg31;
}

static enum reading_how how_to_read(struct reading *r, int language, const char *producer)
{
	bool is_llvm = strstr(producer, "clang") || language == DW_LANG_Rust;
	bool is_external = die_flag(r->function, DW_AT_external) && !r->trust.is_local;
	/* LLVM takes parameters and results away from functions that it knows all calls of. */
	bool is_private = is_llvm && (!is_external || language == DW_LANG_Rust);
	bool is_small = is_llvm && is_optimised(r->function);

	r->is_optimised_by_llvm = is_small && has_locations_by_code(r->function);
	r->signature->may_lack_result = r->trust.is_reduced || (is_private && is_small);
	if (r->site->kind != CODE_SITE_FUNCTION)
		return BY_LOCATION;
	if (language == DW_LANG_Go)
		return strstr(producer, "regabi") ? AS_GO : BY_LOCATION;
	if (r->trust.is_changed || r->trust.has_own_convention ||
	    (is_private && has_locations_by_code(r->function)))
		return BY_LOCATION;
	return language == DW_LANG_Rust ? AS_RUST : BY_CONVENTION;
}

/* The register of a result's address is free, or the compiler took that argument away. */
static void check_hidden(struct signature *signature)
{
	for (size_t i = 0; i < signature->count; i++) {
		const struct signature_value *v = &signature->parameter[i];
		bool uses = v->regs && v->reg[0] == signature_argument_register(0);
		for (size_t k = 0; k < v->piece_count; k++)
			uses = uses || (v->piece[k].kind == SIGNATURE_PIECE_REGISTER &&
					v->piece[k].reg == signature_argument_register(0));
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

static const char *producer_of(Dwarf_Die *unit)
{
	Dwarf_Attribute attr;
	const char *text = dwarf_attr(unit, DW_AT_producer, &attr) ? clean_attribute(&attr) : NULL;

	return text ? text : "";
}

/* All conventions return a number in the same register; a struct each in its own way. */
static void place_result(struct reading *r, int language)
{
	struct signature *sig = r->signature;
	struct signature_value *result = &sig->result;

	result->type = type_of_attribute(r->s, r->function);
	if (language == DW_LANG_Rust)
		signature_rust_result(&r->convention, result);
	else if (language != DW_LANG_Go)
		signature_c_result(&r->convention, result, r->function);
	make_simple(result);
	/* One in memory stays: the function was given the address. */
	if (result->where == SIGNATURE_MEMORY)
		sig->may_lack_result = false;
}

static void distrust_result(struct signature_value *result)
{
	bool is_plain = !type_has_members(result->type) && result->type->size <= 8;

	if (result->type->kind != TYPE_VOID && !is_plain)
		result->where = SIGNATURE_UNKNOWN;
}

/* One contradiction is enough: then the convention states nothing of the others either. */
static int read_again(struct reading *r)
{
	free(r->signature->parameter);
	r->signature->parameter = NULL;
	r->signature->count = 0;
	r->how = BY_LOCATION;
	return read_parameters(r, r->function);
}

static int read_signature(struct symbols *s, Dwarf_Die *die, const struct code_site *site,
			  Dwarf_Addr pc, struct signature *out)
{
	struct reading r = { .s = s, .signature = out, .site = site, .function = die, .pc = pc };
	Dwarf_Die cu;
	bool has_unit = dwarf_diecu(die, &cu, NULL, NULL) != NULL;
	int language = has_unit ? dwarf_srclang(&cu) : -1;

	signature_trust(s, die, site, &r.trust);
	r.how = how_to_read(&r, language, has_unit ? producer_of(&cu) : "");
	out->is_whole = language == DW_LANG_Go || language == DW_LANG_Rust;
	place_result(&r, language);
	int err = read_parameters(&r, die);
	if (!err && r.is_contradicted)
		err = read_again(&r);
	if (r.is_contradicted || r.trust.has_own_convention)
		distrust_result(&out->result);
	if (r.trust.may_restore_result && out->result.type->kind != TYPE_VOID)
		out->result.where = SIGNATURE_UNKNOWN;
	if (!err && language == DW_LANG_Rust && out->result.where == SIGNATURE_MEMORY)
		check_hidden(out);
	return err;
}

#define DEPTH_MAX 64 /* of namespaces and blocks: damaged DWARF must not take the stack */

/* If a function has several parts, such as one for exceptions, the first has the entry. */
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

/* libdw's scopes of a location leave out the function that an inlined copy is in. */
static bool function_die(const struct code_site *site, Dwarf_Die *cu, Dwarf_Addr pc, Dwarf_Die *out)
{
	if (site->die)
		return dwarf_offdie(dwarf_cu_getdwarf(cu->cu), site->die, out) != NULL;
	if (site->kind == CODE_SITE_FUNCTION)
		return entry_at(cu, pc, 0, out);
	return signature_function_at(site, cu, pc, out);
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
