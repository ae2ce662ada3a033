/* SPDX-License-Identifier: MIT */
/* type_fill.c - members and constants from debug information, and types by name. */
#include "report/dwarf/dies.h"
#include "report/dwarf/types_priv.h"
#include "report/safe/busy.h"
#include "report/safe/clean.h"

#include <dwarf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 256

/* Where a virtual base lies: the table before the object states, so many bytes before its start. */
static uint64_t vtable_offset(const Dwarf_Op *ops, size_t n)
{
	if (n != 6 || ops[0].atom != DW_OP_dup || ops[1].atom != DW_OP_deref ||
	    ops[3].atom != DW_OP_minus || ops[4].atom != DW_OP_deref || ops[5].atom != DW_OP_plus)
		return 0;
	if (ops[2].atom >= DW_OP_lit0 && ops[2].atom <= DW_OP_lit31)
		return ops[2].atom - DW_OP_lit0;
	return ops[2].number;
}

/* False: the program computes where the member is. */
static bool read_offset(Dwarf_Die *die, struct type_member *m)
{
	Dwarf_Attribute attr;
	Dwarf_Word offset;
	Dwarf_Op *ops;
	size_t n;

	if (!dwarf_attr_integrate(die, DW_AT_data_member_location, &attr))
		return true;
	if (!dwarf_formudata(&attr, &offset)) {
		m->offset = offset;
		return true;
	}
	if (dwarf_getlocation(&attr, &ops, &n))
		return false;
	if (n == 1 && ops[0].atom == DW_OP_plus_uconst) {
		m->offset = ops[0].number;
		return true;
	}
	m->vtable_offset = vtable_offset(ops, n);
	return m->vtable_offset != 0;
}

/* Bits of the other byte order are counted from the other end, also within a byte. */
static const char *order_of_bits(Dwarf_Die *die)
{
	Dwarf_Die type = *die;
	Dwarf_Attribute attr;

	for (int i = 0; i < 8; i++) {
		if (!dwarf_attr_integrate(&type, DW_AT_type, &attr) ||
		    !dwarf_formref_die(&attr, &type))
			return NULL;
		const char *refusal = type_refusal_of_order(&type);
		if (refusal)
			return refusal;
		if (dwarf_tag(&type) == DW_TAG_base_type)
			return NULL;
	}
	return NULL;
}

static void read_bits(Dwarf_Die *die, struct type_member *m)
{
	uint64_t size;
	uint64_t at;

	if (!die_number(die, DW_AT_bit_size, &size) || !size || size > 64)
		return;
	if (die_number(die, DW_AT_data_bit_offset, &at)) {
		at += m->offset * 8;
	} else {
		/* Before DWARF 4: counted from the most significant bit of the storage unit. */
		uint64_t unit = m->type->size;
		uint64_t from_top = 0;
		die_number(die, DW_AT_byte_size, &unit);
		die_number(die, DW_AT_bit_offset, &from_top);
		at = m->offset * 8 + unit * 8 - from_top - size;
	}
	m->offset = at / 8;
	m->bit_offset = (uint32_t)(at % 8);
	m->bit_size = (uint32_t)size;
}

static bool is_member(Dwarf_Die *die)
{
	int tag = dwarf_tag(die);

	/* A static member is a variable, in older DWARF under the tag of a member. */
	return tag == DW_TAG_inheritance ||
	       (tag == DW_TAG_member && !die_flag(die, DW_AT_external) &&
		!die_flag(die, DW_AT_declaration));
}

static size_t count_children(Dwarf_Die *parent, bool (*is_wanted)(Dwarf_Die *die))
{
	Dwarf_Die die;
	size_t n = 0;

	if (dwarf_child(parent, &die))
		return 0;
	do
		n += is_wanted(&die);
	while (!dwarf_siblingof(&die, &die));
	return n;
}

static void fill_members(struct symbols *s, struct type_rest *rest)
{
	size_t n = count_children(&rest->die, is_member);
	Dwarf_Die die;

	rest->members = n ? calloc(n, sizeof(*rest->members)) : NULL;
	if (!rest->members || dwarf_child(&rest->die, &die))
		return;
	do {
		if (!is_member(&die) || rest->member_count == n)
			continue;
		struct type_member *m = &rest->members[rest->member_count++];
		const char *name = clean_die_name(&die);
		m->type = type_of_attribute(s, &die);
		m->is_base = dwarf_tag(&die) == DW_TAG_inheritance;
		m->name = m->is_base ? m->type->name :
			  name	     ? types_keep_name(s->types, name) :
				       NULL;
		if (!read_offset(&die, m))
			m->type = type_refused(s, m->type,
					       "at a computed offset, DW_AT_data_member_location");
		read_bits(&die, m);
		const char *order = m->bit_size ? order_of_bits(&die) : NULL;
		if (order)
			m->type = type_refused(s, m->type, order);
	} while (!dwarf_siblingof(&die, &die));
}

static bool is_variant(Dwarf_Die *die)
{
	return dwarf_tag(die) == DW_TAG_variant;
}

/* The member of a variant has the variant's name, and its type. */
static void read_variant(struct symbols *s, Dwarf_Die *die, struct type_variant *out)
{
	Dwarf_Attribute attr;
	Dwarf_Sword value = 0;
	Dwarf_Word word = 0;
	struct type_member m = { 0 };
	Dwarf_Die member;

	out->is_default = !dwarf_attr(die, DW_AT_discr_value, &attr);
	if (!out->is_default && !dwarf_formsdata(&attr, &value))
		out->value = value;
	else if (!out->is_default && !dwarf_formudata(&attr, &word))
		out->value = (int64_t)word;
	out->name = "?";
	out->type = type_bytes(s, 0);
	if (dwarf_child(die, &member) || dwarf_tag(&member) != DW_TAG_member)
		return;
	read_offset(&member, &m);
	out->offset = m.offset;
	out->type = type_of_attribute(s, &member);
	if (clean_die_name(&member))
		out->name = types_keep_name(s->types, clean_die_name(&member));
}

static void fill_variants(struct symbols *s, struct type_rest *rest, Dwarf_Die *part)
{
	size_t n = count_children(part, is_variant);
	struct type_variants *v = n ? calloc(1, sizeof(*v)) : NULL;
	struct type_member m = { 0 };
	Dwarf_Attribute attr;
	Dwarf_Die die;

	if (!v)
		return;
	v->variant = calloc(n, sizeof(*v->variant));
	if (!v->variant) {
		free(v);
		return;
	}
	if (dwarf_attr(part, DW_AT_discr, &attr) && dwarf_formref_die(&attr, &die)) {
		read_offset(&die, &m);
		v->offset = m.offset;
		v->discriminant = type_of_attribute(s, &die);
	}
	if (!dwarf_child(part, &die))
		do {
			if (is_variant(&die) && v->count < n)
				read_variant(s, &die, &v->variant[v->count++]);
		} while (!dwarf_siblingof(&die, &die));
	rest->variants = v;
}

static void find_variants(struct symbols *s, struct type_rest *rest)
{
	Dwarf_Die die;

	if (dwarf_child(&rest->die, &die))
		return;
	do {
		if (dwarf_tag(&die) == DW_TAG_variant_part && !rest->variants)
			fill_variants(s, rest, &die);
	} while (!dwarf_siblingof(&die, &die));
}

const struct type *type_template(const struct type *t)
{
	Dwarf_Die die;

	if (!t->rest->die.addr || dwarf_child(&t->rest->die, &die))
		return NULL;
	do {
		if (dwarf_tag(&die) == DW_TAG_template_type_parameter)
			return type_of_attribute(t->rest->s, &die);
	} while (!dwarf_siblingof(&die, &die));
	return NULL;
}

const struct type_variants *type_variants(const struct type *t)
{
	type_fill(t);
	return t->rest->variants;
}

static bool fill_is_constant(Dwarf_Die *die)
{
	return dwarf_tag(die) == DW_TAG_enumerator;
}

static int64_t constant_value(Dwarf_Die *die)
{
	Dwarf_Attribute attr;
	Dwarf_Sword value = 0;

	if (dwarf_attr(die, DW_AT_const_value, &attr))
		dwarf_formsdata(&attr, &value);
	return value;
}

static void fill_constants(struct symbols *s, struct type_rest *rest)
{
	size_t n = count_children(&rest->die, fill_is_constant);
	Dwarf_Die die;

	rest->constants = n ? calloc(n, sizeof(*rest->constants)) : NULL;
	if (!rest->constants || dwarf_child(&rest->die, &die))
		return;
	do {
		if (!fill_is_constant(&die) || rest->constant_count == n)
			continue;
		struct type_constant *c = &rest->constants[rest->constant_count++];
		const char *name = clean_die_name(&die);
		c->name = types_keep_name(s->types, name ? name : "?");
		c->value = constant_value(&die);
	} while (!dwarf_siblingof(&die, &die));
}

void type_fill(const struct type *t)
{
	BUSY;
	struct type_rest *rest = t->rest;

	if (rest->filled)
		return;
	rest->filled = true;
	if (!rest->die.addr)
		return;
	if (t->kind == TYPE_ENUM)
		fill_constants(rest->s, rest);
	else if (type_has_members(t)) {
		fill_members(rest->s, rest);
		find_variants(rest->s, rest);
	}
}

struct type_search {
	const char *name; /* qualified, no tag word */
	const char *last; /* what is behind its last "::" */
	int tag;	  /* 0: any */
	Dwarf_Die found;
	bool is_found;
};

static bool is_type_tag(int tag, int wanted)
{
	switch (tag) {
	case DW_TAG_structure_type:
	case DW_TAG_class_type:
		return !wanted || wanted == DW_TAG_structure_type;
	case DW_TAG_union_type:
	case DW_TAG_enumeration_type:
		return !wanted || wanted == tag;
	case DW_TAG_typedef:
	case DW_TAG_base_type:
		return !wanted;
	default:
		return false;
	}
}

static int fill_search_visit(const struct die_visit *v, Dwarf_Die *die)
{
	struct type_search *f = v->arg;
	char name[NAME_BYTES];

	if (!is_type_tag(dwarf_tag(die), f->tag))
		return 0;
	const char *last = clean_die_name(die);
	if (!last || strcmp(die_plain(last, name, sizeof(name)), f->last) != 0 ||
	    die_flag(die, DW_AT_declaration))
		return 0;
	if (f->last != f->name) {
		die_join(v->scope, last, name, sizeof(name));
		if (strcmp(name, f->name) != 0)
			return 0;
	}
	f->found = *die;
	f->is_found = true;
	return 1;
}

static int take_tag_word(const char **name)
{
	static const struct {
		const char *word;
		int tag;
	} words[] = {
		{ "struct ", DW_TAG_structure_type },
		{ "class ", DW_TAG_structure_type },
		{ "union ", DW_TAG_union_type },
		{ "enum ", DW_TAG_enumeration_type },
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		size_t n = strlen(words[i].word);
		if (strncmp(*name, words[i].word, n) != 0)
			continue;
		*name += n;
		return words[i].tag;
	}
	return 0;
}

const struct type *type_find(struct symbols *s, const char *name)
{
	struct type_search f = { 0 };
	char plain[NAME_BYTES];

	name = die_plain(name, plain, sizeof(plain));
	if (!strncmp(name, "const ", 6))
		name += 6;
	f.tag = take_tag_word(&name);
	f.name = name;
	f.last = die_last_part(name);
	const struct type *builtin = f.tag ? NULL : type_builtin(s, name);
	if (builtin)
		return builtin;
	dies_walk(s, NULL, DIES_SHARED, fill_search_visit, &f);
	return f.is_found ? type_of_die(s, &f.found) : NULL;
}

struct constant_search {
	const char *name;
	const char *last;
	int64_t value;
};

static int constant_visit(const struct die_visit *v, Dwarf_Die *die)
{
	struct constant_search *f = v->arg;
	char name[NAME_BYTES];
	Dwarf_Die child;

	if (dwarf_tag(die) != DW_TAG_enumeration_type || dwarf_child(die, &child))
		return 0;
	do {
		const char *last = clean_die_name(&child);
		if (!fill_is_constant(&child) || !last || strcmp(last, f->last) != 0)
			continue;
		if (f->last != f->name) {
			/* Both Enum::NAME and NAME, as C++ has it. */
			struct die_scope inner = { v->scope, clean_die_name(die) };
			die_join(&inner, last, name, sizeof(name));
			if (strcmp(name, f->name) != 0) {
				die_join(v->scope, last, name, sizeof(name));
				if (strcmp(name, f->name) != 0)
					continue;
			}
		}
		f->value = constant_value(&child);
		return 1;
	} while (!dwarf_siblingof(&child, &child));
	return 0;
}

int type_find_constant(struct symbols *s, const struct type *t, const char *name, int64_t *out)
{
	struct constant_search f = { .name = name, .last = die_last_part(name) };
	size_t n = 0;
	const struct type_constant *c = t ? type_constants(t, &n) : NULL;

	for (size_t i = 0; i < n; i++) {
		if (strcmp(c[i].name, name) != 0)
			continue;
		*out = c[i].value;
		return 0;
	}
	if (!dies_walk(s, NULL, DIES_SHARED, constant_visit, &f))
		return -ENOENT;
	*out = f.value;
	return 0;
}
