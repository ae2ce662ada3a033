/* SPDX-License-Identifier: MIT */
/*
 * signature_trust.c - what an object states against the usual calling convention.
 *
 * Compilers change functions whose calls they all know, and attributes choose another convention.
 * The order of trust is: a location that covers the entry, then the convention where nothing speaks
 * against it, else nothing. A value is not guessed.
 */
#include "report/lang/signature_priv.h"

#include "report/dwarf/dies.h"
#include "report/dwarf/languages.h"
#include "report/dwarf/symbols_priv.h"
#include "report/safe/clean.h"

#include <dwarf.h>
#include <string.h>

#if defined(__x86_64__)
#define CFA_FROM_SP 8 /* the return address is between */
#define SP_REGISTER 7
#define FRAME_REGISTER 6
#else
#define CFA_FROM_SP 0
#define SP_REGISTER 31
#define FRAME_REGISTER 29
#endif

/* What LLVM writes for attributes; those of System V and preserve_* pass arguments as usual. */
enum {
	CC_LLVM_X86_64_SYSV = 0xc2,
	CC_LLVM_PRESERVE_MOST = 0xc9,
	CC_LLVM_PRESERVE_ALL = 0xca,
};

static uint64_t convention_of(Dwarf_Die *function)
{
	uint64_t convention = DW_CC_normal;

	die_number(function, DW_AT_calling_convention, &convention);
	return convention;
}

static bool is_preserving(uint64_t convention)
{
	return convention == CC_LLVM_PRESERVE_MOST || convention == CC_LLVM_PRESERVE_ALL;
}

static bool has_own_convention(uint64_t convention)
{
	return convention != DW_CC_normal && convention != DW_CC_program &&
	       convention != CC_LLVM_X86_64_SYSV && !is_preserving(convention);
}

/* Others pass arguments by reference, in another order, or with what no type shows. */
static bool has_c_convention(Dwarf_Die *function)
{
	int language = die_language(function);

	switch (language) {
	case DW_LANG_C_plus_plus:
	case DW_LANG_C_plus_plus_03:
	case DW_LANG_C_plus_plus_11:
	case DW_LANG_C_plus_plus_14:
	case LANG_C_PLUS_PLUS_17:
	case LANG_C_PLUS_PLUS_20:
	case LANG_C_PLUS_PLUS_23:
	case DW_LANG_ObjC:
	case DW_LANG_ObjC_plus_plus:
	case DW_LANG_Go:
	case DW_LANG_Rust:
		return true;
	default:
		return language_is_c(language);
	}
}

/* A suffix that states more than from where the name came: .isra.0, .constprop.0, .argprom. */
static bool has_changed_name(const char *symbol)
{
	const char *dot = strchr(symbol + 1, '.');

	return dot && strncmp(dot, ".llvm.", 6) != 0 && strncmp(dot, ".lto_priv", 9) != 0 &&
	       strncmp(dot, ".localalias", 11) != 0;
}

void signature_trust(struct symbols *s, Dwarf_Die *function, const struct code_site *site,
		     struct signature_trust *out)
{
	Dwfl_Module *mod = dwfl_addrmodule(s->dwfl, site->function);
	GElf_Off offset = 1;
	GElf_Sym sym;
	const char *name = mod ? clean_symbol_at(mod, site->function, &offset, &sym) : NULL;
	bool has_symbol = name && name[0] && !offset;

	/* Link-time optimisation makes local what debug information still calls external. */
	out->is_local = !has_symbol || (GELF_ST_BIND(sym.st_info) == STB_LOCAL &&
					GELF_ST_VISIBILITY(sym.st_other) == STV_DEFAULT);
	out->is_changed = site->is_clone || (has_symbol && has_changed_name(name));
	out->is_reduced = site->is_reduced || (has_symbol && strstr(name, ".isra"));
	uint64_t convention = convention_of(function);
	out->may_restore_result = is_preserving(convention);
	out->has_own_convention = has_own_convention(convention) || !has_c_convention(function);
}

static bool is_piece_where(const struct signature_value *v, const struct signature_piece *p)
{
	uint64_t begins;

	if (p->kind == SIGNATURE_PIECE_REGISTER)
		return signature_register_of(v, p->offset, &begins) == p->reg;
	if (p->kind != SIGNATURE_PIECE_VECTOR)
		return true;
	if (v->where == SIGNATURE_VECTOR)
		return v->vector == p->reg || p->offset;
	for (size_t i = 0; i < v->piece_count; i++)
		if (v->piece[i].kind == SIGNATURE_PIECE_VECTOR && v->piece[i].reg == p->reg)
			return true;
	return false;
}

static bool location_at(Dwarf_Die *die, Dwarf_Addr pc, Dwarf_Op **ops, size_t *n)
{
	Dwarf_Attribute attr;

	return dwarf_attr_integrate(die, DW_AT_location, &attr) &&
	       dwarf_getlocation_addr(&attr, pc, ops, n, 1) == 1 && *n;
}

/* Debug information has it behind an address, in a register or in the frame. */
static bool is_by_reference(Dwarf_Die *die, Dwarf_Addr pc)
{
	Dwarf_Op *ops;
	size_t n;

	if (!location_at(die, pc, &ops, &n) || ops[n - 1].atom == DW_OP_stack_value)
		return false;
	bool is_register = ops[0].atom >= DW_OP_breg0 && ops[0].atom <= DW_OP_breg31;
	return ops[n - 1].atom == DW_OP_deref ||
	       (n == 1 && is_register && ops[0].atom != DW_OP_breg0 + SP_REGISTER &&
		ops[0].atom != DW_OP_breg0 + FRAME_REGISTER);
}

/* Does the first operation name the stack pointer, from which the caller's memory counts? */
static bool from_stack_pointer(const Dwarf_Op *op)
{
	return op->atom == DW_OP_breg0 + SP_REGISTER;
}

/* In memory of the caller: at a positive offset from the frame's end. */
static bool on_callers_stack(struct signature_value *v, Dwarf_Die *function, Dwarf_Die *die,
			     Dwarf_Addr pc)
{
	Dwarf_Attribute attr;
	Dwarf_Op *ops;
	size_t n;

	bool is_from_cfa = dwarf_attr_integrate(function, DW_AT_frame_base, &attr) &&
			   !dwarf_getlocation(&attr, &ops, &n) && n == 1 &&
			   ops[0].atom == DW_OP_call_frame_cfa;
	if (!location_at(die, pc, &ops, &n) || n != 1 || (int64_t)ops[0].number < 0 ||
	    !(from_stack_pointer(&ops[0]) || (is_from_cfa && ops[0].atom == DW_OP_fbreg)))
		return false;
	v->where = SIGNATURE_STACK;
	v->stack = (ops[0].atom == DW_OP_fbreg ? CFA_FROM_SP : 0) + ops[0].number;
	v->regs = 0;
	v->piece_count = 0;
	return true;
}

/*
 * One location for the whole function may be filled by its first instructions: only a list states
 * more.
 */
bool signature_on_callers_stack(struct signature_value *v, Dwarf_Die *function, Dwarf_Die *die,
				Dwarf_Addr pc)
{
	Dwarf_Attribute attr;
	Dwarf_Op *ops;
	size_t n;

	return dwarf_attr_integrate(die, DW_AT_location, &attr) &&
	       dwarf_getlocation(&attr, &ops, &n) && on_callers_stack(v, function, die, pc);
}

bool signature_agrees(const struct signature_value *v, Dwarf_Die *function, Dwarf_Die *die,
		      Dwarf_Addr pc)
{
	struct signature_value said = { .name = v->name, .type = v->type };

	if (v->where == SIGNATURE_UNKNOWN)
		return true;
	if (is_by_reference(die, pc))
		return v->where == SIGNATURE_MEMORY;
	if (signature_by_location(&said, die, pc)) {
		if (said.where == SIGNATURE_CONSTANT)
			return false;
		for (size_t i = 0; i < said.piece_count; i++)
			if (!is_piece_where(v, &said.piece[i]))
				return false;
		return true;
	}
	if (!on_callers_stack(&said, function, die, pc))
		return true;
	return v->where == SIGNATURE_STACK && v->stack == said.stack;
}
