/* SPDX-License-Identifier: MIT */
/* types_priv.h - what the files that make types share. */
#ifndef REPORT_DWARF_TYPES_PRIV_H
#define REPORT_DWARF_TYPES_PRIV_H

#include "report/dwarf/types.h"

#include <elfutils/libdw.h>

struct symbols;

struct type_rest {
	struct symbols *s;
	Dwarf_Die die; /* addr NULL: built in */
	const struct type *target;
	struct type_member *members;
	size_t member_count;
	struct type_constant *constants;
	size_t constant_count;
	struct type_variants *variants; /* NULL: none */
	/* What report/lang knows of it as a type of a library; freed with it. NULL: not asked. */
	void *container;
	void *collection;
	unsigned int dimension; /* of an array's die: 1 is the array of the second dimension */
	bool filled;
	bool is_declared;  /* only: the definition is in another unit, if anywhere */
	struct type *next; /* of all types of the same symbols */
};

/* All types made for one struct symbols. */
struct types {
	struct type *first;
	void *by_die;	  /* tsearch() tree of struct type_key */
	void *names;	  /* tsearch() tree of strings */
	struct type none; /* when memory is short */
	struct type_rest none_rest;
};

/* The set of s, made at first use; NULL: no memory. */
struct types *types_of(struct symbols *s);

/* A new type without a die, owned by the set. Never NULL: `none` when memory is short. */
struct type *type_new(struct symbols *s, enum type_kind kind, const char *name, uint64_t size);

/* A copy of name that lives as long as the set; "?" when memory is short. */
const char *types_keep_name(struct types *types, const char *name);

/* type_dwarf.c: the type a die describes; qualifiers and typedefs are looked through. */
const struct type *type_of_die(struct symbols *s, Dwarf_Die *die);
/* The type of a variable or member: what its DW_AT_type states. void without one. */
const struct type *type_of_attribute(struct symbols *s, Dwarf_Die *die);
/* The definition of a type that is only declared; t itself when there is none. */
const struct type *type_completed(const struct type *t);
/* type_refuse.c: the attribute by which the bytes are not understood; NULL: they are. */
const char *type_refusal_of_order(Dwarf_Die *die);
const char *type_refusal_of_base(Dwarf_Die *die, uint64_t encoding, uint64_t size);
const char *type_refusal_of_array(Dwarf_Die *die, size_t dimensions);
const char *type_refusal_of_range(Dwarf_Die *die);
const char *type_refusal_of_tag(Dwarf_Die *die);
/* The index of the first element where debug information gives none: the language has it. */
int64_t type_default_lower(Dwarf_Die *die);
/* The same type, whose bytes are not understood. */
const struct type *type_refused(struct symbols *s, const struct type *t, const char *refusal);

/* Reads members, constants and target. */
void type_fill(const struct type *t);

#endif
