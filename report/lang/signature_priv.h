/* SPDX-License-Identifier: MIT */
/* signature_priv.h - what the calling conventions of languages share. */
#ifndef REPORT_LANG_SIGNATURE_PRIV_H
#define REPORT_LANG_SIGNATURE_PRIV_H

#include "report/lang/signature.h"

#include <elfutils/libdw.h>

/* What the arguments before this one have used up. */
struct convention {
	unsigned int general;
	unsigned int vector;
	uint64_t stack;
	bool is_lost; /* something came whose way is not known: nothing behind it is */
};

/* The debug information of the function or inlined copy at a site; its addresses are + *bias. */
bool signature_die(struct symbols *s, const struct code_site *site, Dwarf_Die *out,
		   Dwarf_Addr *bias);

/* With -gsplit-dwarf the unit in the program is a stub: then the whole one, in *split. */
Dwarf_Die *signature_whole_unit(Dwarf_Die *unit, Dwarf_Die *split);

/* Adds the next bytes of a value; false: a value has fewer parts. */
bool signature_piece_add(struct signature_value *v, const struct signature_piece *piece);

/* Not only a part of it, of which the rest was optimised away. */
bool signature_is_in_one_place(const struct signature_value *v);

/*
 * Where debug information states a value is at pc, when that is in registers or constants. False:
 * it does not state, or states memory, which is not filled at the entry.
 */
bool signature_by_location(struct signature_value *v, Dwarf_Die *die, Dwarf_Addr pc);

/* signature_trust.c: what speaks against the usual convention. */
struct signature_trust {
	bool is_local;		 /* all calls may be known to the compiler */
	bool is_changed;	 /* a clone with a name of its own */
	bool is_reduced;	 /* such a clone may lack its result */
	bool has_own_convention; /* an attribute chose another one */
	/* preserve_most of LLVM before 17 restores the result's register */
	bool may_restore_result;
};
void signature_trust(struct symbols *s, Dwarf_Die *function, const struct code_site *site,
		     struct signature_trust *out);

/* Does debug information of the entry contradict the location that the convention gave? */
bool signature_agrees(const struct signature_value *v, Dwarf_Die *function, Dwarf_Die *die,
		      Dwarf_Addr pc);

/* Puts it on the caller's stack, if debug information has it there. */
bool signature_on_callers_stack(struct signature_value *v, Dwarf_Die *function, Dwarf_Die *die,
				Dwarf_Addr pc);

/*
 * local.c: inside of a function, the location of a variable in its frame. False: it is in none.
 */
bool signature_in_frame(struct symbols *s, const struct code_site *site, Dwarf_Die *die,
			struct signature_value *out);

/*
 * local.c: the function or inlined copy whose line is at the site; calls that the line makes are
 * not it.
 */
bool signature_function_at(const struct code_site *site, Dwarf_Die *cu, Dwarf_Addr pc,
			   Dwarf_Die *out);

/* signature_c.c: the next argument; die: of the parameter. The result, before all arguments. */
void signature_c_argument(struct convention *c, struct signature_value *v, Dwarf_Die *die);
void signature_c_result(struct convention *c, struct signature_value *v, Dwarf_Die *die);

/* signature_go.c: the next argument or result of a function that has Go's register convention. */
void signature_go_place(struct convention *c, struct signature_value *v);
/* Where results on the stack begin, after all arguments. */
void signature_go_begin_results(struct convention *c);

/* signature_rust.c: the next argument of a function that the Rust compiler did not optimise. */
void signature_rust_argument(struct convention *c, struct signature_value *v);
void signature_rust_result(struct convention *c, struct signature_value *v);

#endif
