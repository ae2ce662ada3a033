/* SPDX-License-Identifier: MIT */
/*
 * signature.c - see signature.h.
 *
 * At the first instruction of a function the calling convention says where arguments are, whatever
 * the compiler does with them afterwards; debug information for unoptimised code says where they
 * will be after the prologue, which is no use here. Only copies that the compiler made for itself
 * (f.isra.0, inlined ones) keep to no convention: there its location lists are asked.
 */
#include "report/lang/signature.h"
#include "report/safe/clean.h"

#include "report/dwarf/dies.h"
#include "report/dwarf/types_priv.h"
#include "report/lang/value.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>

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

/* What is used up so far. */
struct convention {
	unsigned int general;
	unsigned int vector;
	uint64_t stack;
	bool is_lost; /* something came whose way is not known: nothing behind it is */
};

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
	Dwarf_Attribute attr;
	Dwarf_Op *ops;
	Dwarf_Word constant;
	size_t n;

	v->where = SIGNATURE_GONE;
	if (dwarf_attr_integrate(die, DW_AT_const_value, &attr) &&
	    !dwarf_formudata(&attr, &constant)) {
		v->where = SIGNATURE_CONSTANT;
		v->constant = constant;
		return;
	}
	if (!dwarf_attr_integrate(die, DW_AT_location, &attr) ||
	    dwarf_getlocation_addr(&attr, pc, &ops, &n, 1) != 1 || !n)
		return;
	if (n == 1 && ops[0].atom >= DW_OP_reg0 && ops[0].atom <= DW_OP_reg16) {
		v->where = SIGNATURE_REGISTERS;
		v->reg[v->regs++] = (uint8_t)(ops[0].atom - DW_OP_reg0);
	} else if (n == 2 && ops[1].atom == DW_OP_stack_value && ops[0].atom >= DW_OP_lit0 &&
		   ops[0].atom <= DW_OP_lit31) {
		v->where = SIGNATURE_CONSTANT;
		v->constant = ops[0].atom - DW_OP_lit0;
	} else if (n == 2 && ops[1].atom == DW_OP_stack_value &&
		   (ops[0].atom == DW_OP_const1u || ops[0].atom == DW_OP_const1s ||
		    ops[0].atom == DW_OP_const2u || ops[0].atom == DW_OP_const2s ||
		    ops[0].atom == DW_OP_const4u || ops[0].atom == DW_OP_const4s)) {
		v->where = SIGNATURE_CONSTANT;
		v->constant = ops[0].number;
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
	bool by_location;
};

static int add_parameter(struct reading *r, Dwarf_Die *die)
{
	struct signature *sig = r->signature;
	Dwarf_Die type;
	struct signature_value *more = reallocarray(sig->parameter, sig->count + 1, sizeof(*more));

	if (!more)
		return -ENOMEM;
	sig->parameter = more;
	struct signature_value *v = &more[sig->count++];
	*v = (struct signature_value){ .name = clean_die_name(die),
				       .type = type_of_attribute(r->s, die) };
	if (r->by_location)
		place_by_location(v, die, r->pc);
	else
		place_argument(&r->convention, v, type_die_of(die, &type) ? &type : NULL);
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

static int read_signature(struct symbols *s, Dwarf_Die *die, const struct code_site *site,
			  Dwarf_Addr pc, struct signature *out)
{
	struct reading r = { .s = s,
			     .signature = out,
			     .pc = pc,
			     .by_location = site->kind != CODE_SITE_FUNCTION || site->is_clone };
	Dwarf_Die type;

	out->result.type = type_of_attribute(s, die);
	place_result(&r.convention, &out->result, type_die_of(die, &type) ? &type : NULL);
	return read_parameters(&r, die);
}

#define DEPTH_MAX 64 /* of namespaces and blocks: damaged DWARF must not take the stack */

static bool begins_at(Dwarf_Die *die, Dwarf_Addr pc)
{
	Dwarf_Addr start;

	return dwarf_tag(die) == DW_TAG_subprogram &&
	       (!dwarf_lowpc(die, &start) || !dwarf_entrypc(die, &start)) && start == pc;
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

int signature_find(struct symbols *s, const struct code_site *site, struct signature **out)
{
	bool is_entry = site->kind == CODE_SITE_FUNCTION;
	uint64_t at = is_entry ? site->function : site->address;
	Dwfl_Module *mod = dwfl_addrmodule(s->dwfl, at);
	Dwarf_Addr bias;
	Dwarf *dwarf = mod ? dwfl_module_getdwarf(mod, &bias) : NULL;
	Dwarf_CU *cu = NULL;
	Dwarf_Die unit;
	Dwarf_Die split;
	Dwarf_Die die;

	while (dwarf && !dwarf_get_units(dwarf, cu, &cu, NULL, NULL, &unit, &split)) {
		if (dwarf_haspc(&unit, at - bias) <= 0)
			continue;
		if (!function_die(site, split.addr ? &split : &unit, at - bias, &die))
			continue;
		struct signature *signature = calloc(1, sizeof(*signature));
		int err = signature ?
				  read_signature(s, &die, site, site->address - bias, signature) :
				  -ENOMEM;
		if (err)
			signature_free(signature);
		else
			*out = signature;
		return err;
	}
	return -ENOENT;
}

void signature_free(struct signature *signature)
{
	if (!signature)
		return;
	free(signature->parameter);
	free(signature);
}
