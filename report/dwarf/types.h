/* SPDX-License-Identifier: MIT */
/*
 * types.h - what a piece of memory contains: types of C and C++ as a tree of Trapline's own.
 *
 * Made from DWARF on demand (type_dwarf.c), or built in for programs that have none. A type
 * lives as long as the struct symbols it came from and is never changed by its users. Members,
 * constants and targets are read only when asked for: a pointer to a list would otherwise pull
 * in half of the program.
 */
#ifndef REPORT_DWARF_TYPES_H
#define REPORT_DWARF_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct symbols;

enum type_kind {
	TYPE_UNKNOWN, /* bytes of which only the size is known */
	TYPE_VOID,
	TYPE_INTEGER,
	TYPE_BOOL,
	TYPE_CHARACTER,
	TYPE_FLOAT,
	TYPE_ENUM,
	TYPE_POINTER,
	TYPE_REFERENCE, /* C++: a pointer that is followed by itself */
	TYPE_STRUCT,	/* or class */
	TYPE_UNION,
	TYPE_ARRAY,
	TYPE_FUNCTION,
};

/*
 * How the bits of a number are laid out, and by which registers it travels, where its size does not
 * state.
 */
enum type_form {
	TYPE_FORM_PLAIN,
	TYPE_FORM_X87,	     /* long double of x86: 10 bytes that count */
	TYPE_FORM_BINARY128, /* __float128; long double of arm64 */
	TYPE_FORM_BFLOAT,    /* __bf16 */
	TYPE_FORM_DECIMAL,   /* _Decimal64 */
	TYPE_FORM_COMPLEX,   /* a struct of .real and .imag */
	TYPE_FORM_VECTOR,    /* an array that is one number for the machine: __m128 */
	TYPE_FORM_MEMBER,    /* C++: a pointer to a member */
};

struct type {
	enum type_kind kind;
	enum type_form form;
	bool is_signed;
	uint64_t size;	/* bytes; 0: unknown, or a type that is only declared */
	uint64_t count; /* of an array's elements; 0: not known */
	int64_t lower;	/* the index of an array's first element */
	/*
	 * The attribute by which its bytes mean what is not understood here; NULL: they are plain.
	 */
	const char *refusal;
	const char *name; /* as C writes it: `struct foo *`, `char[16]` */
	/* The rest belongs to types.c and type_dwarf.c: use the functions. */
	struct type_rest *rest;
};

struct type_member {
	const char *name; /* NULL: an anonymous struct or union, or a base class without a name */
	const struct type *type;
	uint64_t offset;     /* bytes */
	uint32_t bit_offset; /* 0 to 7, from the lowest bit of the byte at offset */
	uint32_t bit_size;   /* 0: no bit-field */
	bool is_base;	     /* a base class */
	/* of a virtual base: bytes before the table its location is at; else 0 */
	uint64_t vtable_offset;
};

struct type_constant {
	const char *name;
	int64_t value;
};

/* Members of a struct or union, base classes too; NULL and *n 0 for others. */
const struct type_member *type_members(const struct type *t, size_t *n);

/* The names of an enum's values, in the order of its definition. */
const struct type_constant *type_constants(const struct type *t, size_t *n);

/* One of the forms that a value of an enum in Rust has. */
struct type_variant {
	const char *name;
	const struct type *type;
	uint64_t offset;
	int64_t value;
	bool is_default; /* the form of all values that no other has */
};

struct type_variants {
	const struct type *discriminant; /* NULL: there is one form */
	uint64_t offset;		 /* of the discriminant */
	size_t count;
	struct type_variant *variant;
};

/* NULL: the type has no variants. */
const struct type_variants *type_variants(const struct type *t);

/* The first parameter of a template or generic type; NULL: it has no parameter. */
const struct type *type_template(const struct type *t);

/* What a pointer or reference leads to, an array consists of; never NULL. */
const struct type *type_target(const struct type *t);

/* A struct, union, class: something with members. */
bool type_has_members(const struct type *t);

/* Integer-like: has a number that a condition can compare. */
bool type_is_number(const struct type *t);

/* The bytes of an address in the target. */
uint64_t type_address_size(struct symbols *s);

/* A pointer to t. NULL: no memory. */
const struct type *type_pointer_to(struct symbols *s, const struct type *t);

/*
 * Built-in types by name, several words in any order: `unsigned long`, `u32`, `uint8_t`,
 * `double`, `char`. NULL: no such type.
 */
const struct type *type_builtin(struct symbols *s, const char *name);

/* An unsigned number of so many bytes, for memory without a type. */
const struct type *type_bytes(struct symbols *s, uint64_t size);

/*
 * A type of the program by name: `struct foo`, `foo`, `ns::foo`, `enum e`; built-in ones too.
 * NULL: not found.
 */
const struct type *type_find(struct symbols *s, const char *name);

/*
 * The value of a constant: of t, if that is an enum, before any other of the program. 0 or -ENOENT.
 */
int type_find_constant(struct symbols *s, const struct type *t, const char *name, int64_t *out);

/* A field in its bytes: what a member path or an offset leads to. */
struct type_place {
	const struct type *type;
	uint64_t offset;     /* bytes from the start of the whole */
	uint32_t bit_offset; /* from the byte at offset */
	uint32_t bit_size;   /* 0: no bit-field */
	/*
	 * In a virtual base, offset counts from that base. The object's table shows where the base
	 * is. The object that has it starts at table_at, its base vtable_offset bytes before.
	 */
	uint64_t table_at;
	uint64_t vtable_offset; /* 0: not in a virtual base */
};

/*
 * A member by name, searched in anonymous members and base classes too; `Base::name` is that
 * of one base. 0, -ENOENT, -ENOTUNIQ: two bases have it.
 */
int type_member_find(const struct type *t, const char *name, struct type_place *out);

/* Names of members that resemble name, best first. */
size_t type_members_near(const struct type *t, const char *name, const char **names, size_t n);

#endif
