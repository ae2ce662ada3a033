/* SPDX-License-Identifier: MIT */
/*
 * type_dwarf.c - types from debug information.
 *
 * A type is made when a variable or member needs it; what it consists of is read later, at its
 * first use. A struct that is only declared in one file is completed by its definition in another.
 */
#include "report/dwarf/dies.h"
#include "report/dwarf/types_priv.h"
#include "report/safe/clean.h"

#include <dwarf.h>
#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NESTING_MAX 64 /* of qualifiers and typedefs */
#define NAME_BYTES 256

struct type_key {
	const void *die;
	unsigned int dimension;
	const struct type *type;
};

static int key_compare(const void *a, const void *b)
{
	const struct type_key *x = a;
	const struct type_key *y = b;

	if (x->die != y->die)
		return x->die < y->die ? -1 : 1;
	return (x->dimension > y->dimension) - (x->dimension < y->dimension);
}

static const struct type *type_known(struct types *types, const Dwarf_Die *die,
				     unsigned int dimension)
{
	struct type_key key = { .die = die->addr, .dimension = dimension };
	struct type_key **found = tfind(&key, &types->by_die, key_compare);

	return found ? (*found)->type : NULL;
}

static void type_remember(struct types *types, const Dwarf_Die *die, unsigned int dimension,
			  const struct type *t)
{
	struct type_key *key = malloc(sizeof(*key));

	if (!key)
		return;
	*key = (struct type_key){ die->addr, dimension, t };
	if (!tsearch(key, &types->by_die, key_compare))
		free(key);
}

static const struct type *type_make(struct symbols *s, Dwarf_Die *die, unsigned int dimension,
				    unsigned int depth);

static const struct type *type_of_attribute_at(struct symbols *s, Dwarf_Die *die,
					       unsigned int depth)
{
	Dwarf_Attribute attr;
	Dwarf_Die type;

	if (depth > NESTING_MAX || !dwarf_attr_integrate(die, DW_AT_type, &attr) ||
	    !dwarf_formref_die(&attr, &type))
		return type_builtin(s, "void");
	return type_make(s, &type, 0, depth + 1);
}

const struct type *type_of_attribute(struct symbols *s, Dwarf_Die *die)
{
	return type_of_attribute_at(s, die, 0);
}

static enum type_form form_of(uint64_t encoding, uint64_t size, const char *name)
{
	if (encoding == DW_ATE_decimal_float)
		return TYPE_FORM_DECIMAL;
	if (encoding != DW_ATE_float)
		return TYPE_FORM_PLAIN;
	if (size == 2 && name && strstr(name, "bf"))
		return TYPE_FORM_BFLOAT;
	if (size < 10)
		return TYPE_FORM_PLAIN;
#if defined(__x86_64__)
	/* Both have 16 bytes, and only names distinguish them. */
	if (!name || (!strstr(name, "128") && !strstr(name, "(kind=16)")))
		return TYPE_FORM_X87;
#endif
	return TYPE_FORM_BINARY128;
}

/* A complex number is a struct of its two parts. */
static void fill_complex(struct symbols *s, struct type *t, const struct type *part)
{
	struct type_member *m = calloc(2, sizeof(*m));

	t->form = TYPE_FORM_COMPLEX;
	t->rest->target = part;
	t->rest->filled = true;
	if (!m)
		return;
	m[0] = (struct type_member){ .name = types_keep_name(s->types, "real"), .type = part };
	m[1] = (struct type_member){ .name = types_keep_name(s->types, "imag"),
				     .type = part,
				     .offset = part->size };
	t->rest->members = m;
	t->rest->member_count = 2;
}

static const struct type *make_complex(struct symbols *s, const char *name, uint64_t size)
{
	bool fits = size == 8 || size == 16 || size == 32;
	struct type *part = type_new(s, TYPE_FLOAT,
				     size == 8	? "float" :
				     size == 16 ? "double" :
						  "long double",
				     size / 2);
	part->is_signed = true;
	part->form = form_of(DW_ATE_float, size / 2, name);
	part->rest->filled = true;
	struct type *t =
		type_new(s, fits ? TYPE_STRUCT : TYPE_UNKNOWN, name ? name : "complex", size);

	if (fits && t->kind == TYPE_STRUCT)
		fill_complex(s, t, part);
	t->rest->filled = true;
	return t;
}

/* A typedef or qualifier: the same type under another name. */
static const struct type *type_alias(struct symbols *s, const struct type *t, const char *name)
{
	struct type *alias = type_new(s, t->kind, name, t->size);

	if (alias->kind != t->kind)
		return alias;
	alias->form = t->form;
	alias->is_signed = t->is_signed;
	alias->count = t->count;
	alias->lower = t->lower;
	alias->refusal = t->refusal;
	alias->rest->die = t->rest->die;
	alias->rest->dimension = t->rest->dimension;
	alias->rest->is_declared = t->rest->is_declared;
	alias->rest->filled = t->rest->filled && !t->rest->member_count &&
			      !t->rest->constant_count && !t->rest->variants;
	alias->rest->target = t->rest->target;
	if (t->form == TYPE_FORM_COMPLEX)
		fill_complex(s, alias, t->rest->target);
	return alias;
}

const struct type *type_refused(struct symbols *s, const struct type *t, const char *refusal)
{
	struct type *refused = type_new(s, TYPE_UNKNOWN, t->name, t->size);

	refused->refusal = refusal;
	refused->form = t->form;
	refused->rest->filled = true;
	return refused;
}

static const struct type *make_const(struct symbols *s, Dwarf_Die *die, unsigned int depth)
{
	const struct type *t = type_of_attribute_at(s, die, depth);
	char name[NAME_BYTES];

	if (t->kind == TYPE_POINTER)
		snprintf(name, sizeof(name), "%.240s const", t->name);
	else if (!strncmp(t->name, "const ", 6) || t->kind == TYPE_ARRAY)
		return t;
	else
		snprintf(name, sizeof(name), "const %.240s", t->name);
	return type_alias(s, t, name);
}

static enum type_kind kind_of(uint64_t encoding, uint64_t size, bool *is_signed)
{
	*is_signed = encoding == DW_ATE_signed || encoding == DW_ATE_signed_char;
	switch (encoding) {
	case DW_ATE_boolean:
		return TYPE_BOOL;
	case DW_ATE_float:
		return TYPE_FLOAT;
	case DW_ATE_signed_char:
	case DW_ATE_unsigned_char:
		return size == 1 ? TYPE_CHARACTER : TYPE_INTEGER;
	case DW_ATE_signed:
	case DW_ATE_unsigned:
	case DW_ATE_UTF:
	case DW_ATE_address:
		return TYPE_INTEGER;
	default:
		return TYPE_UNKNOWN;
	}
}

static const struct type *make_base(struct symbols *s, Dwarf_Die *die)
{
	uint64_t encoding = 0;
	uint64_t size = 0;
	const char *name = clean_die_name(die);
	bool is_signed;

	die_number(die, DW_AT_encoding, &encoding);
	die_number(die, DW_AT_byte_size, &size);
	const char *refusal = type_refusal_of_base(die, encoding, size);
	if (encoding == DW_ATE_complex_float && !refusal)
		return make_complex(s, name, size);
	enum type_kind kind = kind_of(encoding, size, &is_signed);
	if (size > 16 || refusal)
		kind = TYPE_UNKNOWN;
	/* `long unsigned int` and the like, as people write it. */
	const struct type *plain = name && strcmp(name, "_Bool") != 0 ? type_builtin(s, name) :
									NULL;
	if (kind == TYPE_BOOL && name && !plain)
		name = "bool";
	struct type *t = type_new(s, kind, plain ? plain->name : name ? name : "?", size);
	t->is_signed = is_signed;
	t->form = form_of(encoding, size, name);
	t->refusal = refusal;
	t->rest->filled = true;
	return t;
}

/* The class of an address in the object: clang does not state it for each pointer. */
static uint64_t address_size(Dwarf_Die *die)
{
	uint64_t size;
	uint8_t address;

	if (die_number(die, DW_AT_byte_size, &size) && size)
		return size;
	if (dwarf_cu_info(die->cu, NULL, NULL, NULL, NULL, NULL, &address, NULL))
		return sizeof(void *);
	return address;
}

static const struct type *make_pointer(struct symbols *s, Dwarf_Die *die, unsigned int depth)
{
	const struct type *target = type_of_attribute_at(s, die, depth);
	bool is_pointer = dwarf_tag(die) == DW_TAG_pointer_type;
	const char *sign = is_pointer ? "*" : dwarf_tag(die) == DW_TAG_reference_type ? "&" : "&&";
	char name[NAME_BYTES];

	const char *star = strstr(target->name, "(*");
	if (target->kind == TYPE_POINTER && star && is_pointer) /* "int (*)()": "int (**)()" */
		snprintf(name, sizeof(name), "%.*s*%s", (int)(star - target->name + 1),
			 target->name, star + 1);
	else if (target->kind == TYPE_FUNCTION) /* "int ()" becomes "int (*)()" */
		snprintf(name, sizeof(name), "%.*s(%s)()", (int)(strlen(target->name) - 2),
			 target->name, sign);
	else
		snprintf(name, sizeof(name), "%.240s%s%s", target->name,
			 target->kind == TYPE_POINTER ? "" : " ", sign);
	struct type *t =
		type_new(s, is_pointer ? TYPE_POINTER : TYPE_REFERENCE, name, address_size(die));
	t->rest->target = target;
	t->rest->filled = true;
	return t;
}

/* An offset; for a function its address or index in a table, and what to add to the object's. */
static const struct type *make_member_pointer(struct symbols *s, Dwarf_Die *die, unsigned int depth)
{
	const struct type *target = type_of_attribute_at(s, die, depth);
	bool is_function = target->kind == TYPE_FUNCTION;
	char name[NAME_BYTES];

	snprintf(name, sizeof(name), "%.200s %s", target->name, is_function ? "(::*)" : "::*");
	struct type *t = type_new(s, TYPE_UNKNOWN, name, (is_function ? 2 : 1) * address_size(die));
	t->form = TYPE_FORM_MEMBER;
	t->rest->filled = true;
	return t;
}

static const struct type *make_function(struct symbols *s, Dwarf_Die *die, unsigned int depth)
{
	const struct type *returns = type_of_attribute_at(s, die, depth);
	char name[NAME_BYTES];

	snprintf(name, sizeof(name), "%.240s%s()", returns->name,
		 returns->kind == TYPE_POINTER ? "" : " ");
	return type_new(s, TYPE_FUNCTION, name, 0);
}

struct dimension {
	int64_t lower;
	uint64_t count; /* 0: not known */
};

/* A bound as a constant, with its sign. False: the program computes it. */
static bool bound_of(Dwarf_Die *range, unsigned int name, uint64_t *out)
{
	Dwarf_Attribute attr;
	Dwarf_Sword value;

	if (!dwarf_attr_integrate(range, name, &attr))
		return false;
	switch (dwarf_whatform(&attr)) {
	case DW_FORM_data1:
	case DW_FORM_data2:
	case DW_FORM_data4:
		return die_number(range, name, out);
	default:
		if (dwarf_formsdata(&attr, &value))
			return false;
		*out = (uint64_t)value;
		return true;
	}
}

/* The length of an array's dimension; 0: not known. */
static uint64_t dimension_count(Dwarf_Die *range, int64_t lower)
{
	uint64_t value;

	if (die_number(range, DW_AT_count, &value))
		return value;
	/* UINT64_MAX in all forms: the C of a flexible array. */
	if (!bound_of(range, DW_AT_upper_bound, &value) || value == UINT64_MAX ||
	    (int64_t)value < lower)
		return 0;
	return value - (uint64_t)lower + 1;
}

static bool read_dimension(Dwarf_Die *range, struct dimension *out)
{
	uint64_t lower;

	*out = (struct dimension){ .lower = type_default_lower(range) };
	bool is_given = dwarf_hasattr_integrate(range, DW_AT_lower_bound);
	bool is_known = is_given && bound_of(range, DW_AT_lower_bound, &lower);
	if (is_known)
		out->lower = (int64_t)lower;
	if (!is_given || is_known)
		out->count = dimension_count(range, out->lower);
	return !is_given || is_known;
}

static size_t read_dimensions(Dwarf_Die *die, struct dimension *dimensions, size_t max,
			      const char **refusal)
{
	Dwarf_Die range;
	size_t n = 0;

	if (dwarf_child(die, &range))
		return 0;
	do {
		int tag = dwarf_tag(&range);
		if (tag == DW_TAG_generic_subrange)
			*refusal = "of any rank, DW_TAG_generic_subrange";
		if ((tag != DW_TAG_subrange_type && tag != DW_TAG_enumeration_type) || n == max)
			continue;
		const char *why = type_refusal_of_range(&range);
		*refusal = why ? why : *refusal;
		if (!read_dimension(&range, &dimensions[n++]))
			*refusal = "its first index is not a constant, DW_AT_lower_bound";
	} while (!dwarf_siblingof(&range, &range));
	return n;
}

#define DIMENSIONS_MAX 8

static const struct type *make_array(struct symbols *s, Dwarf_Die *die, unsigned int dimension,
				     unsigned int depth)
{
	struct dimension dimensions[DIMENSIONS_MAX];
	const char *refusal = NULL;
	size_t n = read_dimensions(die, dimensions, DIMENSIONS_MAX, &refusal);
	const struct type *element = type_of_attribute_at(s, die, depth);
	uint64_t size = element->size;
	char name[NAME_BYTES];

	/* An array of arrays in another way; its dimensions go behind Trapline's. */
	const char *bracket = element->kind == TYPE_ARRAY ? strchr(element->name, '[') : NULL;
	int used = snprintf(name, sizeof(name), "%.*s",
			    bracket ? (int)(bracket - element->name) : 160, element->name);
	for (size_t i = dimension; i < n; i++) {
		size *= dimensions[i].count;
		if (used < (int)sizeof(name) - 32)
			used += snprintf(name + used, sizeof(name) - (size_t)used,
					 dimensions[i].count ? "[%llu]" : "[]",
					 (unsigned long long)dimensions[i].count);
	}
	if (bracket && used < (int)sizeof(name) - 32)
		snprintf(name + used, sizeof(name) - (size_t)used, "%.30s", bracket);
	struct type *t = type_new(s, TYPE_ARRAY, name, size);
	if (!refusal)
		refusal = type_refusal_of_array(die, n);
	if (refusal)
		return type_refused(s, t, refusal);
	t->count = dimension < n ? dimensions[dimension].count : 0;
	t->lower = dimension < n ? dimensions[dimension].lower : 0;
	if (die_flag(die, DW_AT_GNU_vector))
		t->form = TYPE_FORM_VECTOR;
	t->rest->dimension = dimension;
	t->rest->die = *die;
	/* Inspected now, since whether there is another dimension is known here. */
	t->rest->target = dimension + 1 < n ? type_make(s, die, dimension + 1, depth + 1) : element;
	t->rest->filled = true;
	return t;
}

static const char *tag_word(Dwarf_Die *die)
{
	if (die_is_cplusplus(die))
		return "";
	switch (dwarf_tag(die)) {
	case DW_TAG_enumeration_type:
		return "enum ";
	case DW_TAG_union_type:
		return "union ";
	default:
		return "struct ";
	}
}

static void tagged_name(Dwarf_Die *die, char *buf, size_t n)
{
	const char *word = tag_word(die);
	size_t used = strlen(word);

	snprintf(buf, n, "%s", word);
	if (clean_die_name(die))
		die_qualified(die, buf + used, n - used);
	else
		snprintf(buf + used, n - used, "{...}");
}

static const struct type *make_tagged(struct symbols *s, Dwarf_Die *die, enum type_kind kind,
				      unsigned int depth)
{
	Dwarf_Attribute signature;
	char name[NAME_BYTES];
	uint64_t size = 0;
	Dwarf_Die unit;

	/* With -fdebug-types-section the definition is in a unit of its own. */
	if (depth < NESTING_MAX && dwarf_attr(die, DW_AT_signature, &signature) &&
	    dwarf_formref_die(&signature, &unit) && unit.addr != die->addr)
		return type_make(s, &unit, 0, depth + 1);
	tagged_name(die, name, sizeof(name));
	die_number(die, DW_AT_byte_size, &size);
	struct type *t = type_new(s, kind, name, size);
	if (t->kind != kind)
		return t;
	if (kind == TYPE_ENUM) {
		t->refusal = type_refusal_of_order(die);
		Dwarf_Attribute attr;
		Dwarf_Die base;
		if (depth < NESTING_MAX && dwarf_attr(die, DW_AT_type, &attr) &&
		    dwarf_formref_die(&attr, &base))
			t->is_signed = type_make(s, &base, 0, depth + 1)->is_signed;
	}
	t->rest->die = *die;
	t->rest->is_declared = die_flag(die, DW_AT_declaration) && clean_die_name(die);
	return t;
}

const struct type *type_completed(const struct type *t)
{
	char name[NAME_BYTES];

	if (!t->rest->is_declared)
		return t;
	t->rest->is_declared = false; /* one search is enough, no matter what it finds */
	tagged_name(&t->rest->die, name, sizeof(name));
	const struct type *full = type_find(t->rest->s, name);
	return full ? type_alias(t->rest->s, full, t->name) : t;
}

/* A part of a type's values, in as many bytes as it states itself. */
static const struct type *make_range(struct symbols *s, Dwarf_Die *die, unsigned int depth)
{
	const struct type *t = type_of_attribute_at(s, die, depth);
	const char *refusal = type_refusal_of_range(die);
	uint64_t size;

	if (!refusal && die_number(die, DW_AT_byte_size, &size) && size != t->size)
		refusal = "of another size than its type, DW_AT_byte_size";
	return refusal ? type_refused(s, t, refusal) : t;
}

static const struct type *type_build(struct symbols *s, Dwarf_Die *die, unsigned int dimension,
				     unsigned int depth)
{
	switch (dwarf_tag(die)) {
	case DW_TAG_typedef:
		return type_alias(s, type_of_attribute_at(s, die, depth),
				  clean_die_name(die) ? clean_die_name(die) : "?");
	case DW_TAG_const_type:
		return make_const(s, die, depth);
	case DW_TAG_volatile_type:
	case DW_TAG_restrict_type:
	case DW_TAG_atomic_type:
	case DW_TAG_immutable_type:
	case DW_TAG_packed_type:
		return type_of_attribute_at(s, die, depth);
	case DW_TAG_base_type:
		return make_base(s, die);
	case DW_TAG_pointer_type:
	case DW_TAG_reference_type:
	case DW_TAG_rvalue_reference_type:
		return make_pointer(s, die, depth);
	case DW_TAG_ptr_to_member_type:
		return make_member_pointer(s, die, depth);
	case DW_TAG_subroutine_type:
		return make_function(s, die, depth);
	case DW_TAG_array_type:
		return make_array(s, die, dimension, depth);
	case DW_TAG_enumeration_type:
		return make_tagged(s, die, TYPE_ENUM, depth);
	case DW_TAG_structure_type:
	case DW_TAG_class_type:
	case DW_TAG_interface_type:
		return make_tagged(s, die, TYPE_STRUCT, depth);
	case DW_TAG_union_type:
		return make_tagged(s, die, TYPE_UNION, depth);
	case DW_TAG_subrange_type:
		if (dwarf_hasattr_integrate(die, DW_AT_type))
			return make_range(s, die, depth);
		/* fall through */
	default: {
		uint64_t size = 0;
		const char *name = clean_die_name(die);
		die_number(die, DW_AT_byte_size, &size);
		struct type *t = type_new(s, TYPE_UNKNOWN, name ? name : "?", size);
		t->refusal = type_refusal_of_tag(die);
		t->rest->filled = true;
		return t;
	}
	}
}

static const struct type *type_make(struct symbols *s, Dwarf_Die *die, unsigned int dimension,
				    unsigned int depth)
{
	struct types *types = types_of(s);
	const struct type *t = types ? type_known(types, die, dimension) : NULL;

	if (t)
		return t;
	t = type_build(s, die, dimension, depth);
	if (types)
		type_remember(types, die, dimension, t);
	return t;
}

const struct type *type_of_die(struct symbols *s, Dwarf_Die *die)
{
	return type_make(s, die, 0, 0);
}
