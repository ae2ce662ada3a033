/* SPDX-License-Identifier: MIT */
/* types.c - the set of types of a process, the built-in ones, and members by name. */
#include "report/dwarf/types_priv.h"

#include "report/dwarf/near.h"
#include "report/dwarf/symbols_priv.h"

#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NESTING_MAX 32	 /* of members within members: damaged DWARF may be a circle */
#define VISITS_MAX 20000 /* of types in one search: two bases that each have two, and so on */

static void types_free(struct symbols *s)
{
	struct types *types = s->types;

	tdestroy(types->by_die, free);
	tdestroy(types->names, free);
	for (struct type *t = types->first; t;) {
		struct type *next = t->rest->next;
		free(t->rest->members);
		free(t->rest->constants);
		if (t->rest->variants)
			free(t->rest->variants->variant);
		free(t->rest->variants);
		free(t->rest->container);
		free(t->rest->collection);
		free(t->rest);
		free(t);
		t = next;
	}
	free(types->none_rest.container);
	free(types->none_rest.collection);
	free(types);
}

struct types *types_of(struct symbols *s)
{
	if (s->types)
		return s->types;
	struct types *types = calloc(1, sizeof(*types));
	if (!types)
		return NULL;
	types->none = (struct type){ .name = "?", .rest = &types->none_rest };
	types->none_rest = (struct type_rest){ .s = s, .target = &types->none, .filled = true };
	s->types = types;
	symbols_on_close(s, types_free);
	return types;
}

static int name_compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

const char *types_keep_name(struct types *types, const char *name)
{
	const char **found = tfind(name, &types->names, name_compare);

	if (found)
		return *found;
	char *copy = strdup(name);
	if (copy && tsearch(copy, &types->names, name_compare))
		return copy;
	free(copy);
	return "?";
}

/* The one that stands for all when memory is short. */
static struct type *type_none(struct symbols *s)
{
	static struct type_rest rest;
	static struct type none = { .name = "?", .rest = &rest };

	rest = (struct type_rest){ .target = &none, .filled = true };
	return s->types ? &s->types->none : &none;
}

struct type *type_new(struct symbols *s, enum type_kind kind, const char *name, uint64_t size)
{
	struct types *types = types_of(s);
	struct type *t = calloc(1, sizeof(*t));
	struct type_rest *rest = calloc(1, sizeof(*rest));

	if (!types || !t || !rest) {
		free(t);
		free(rest);
		return type_none(s);
	}
	t->kind = kind;
	t->size = size;
	t->name = types_keep_name(types, name);
	t->rest = rest;
	rest->s = s;
	rest->next = types->first;
	types->first = t;
	return t;
}

const struct type_member *type_members(const struct type *t, size_t *n)
{
	type_fill(t);
	*n = t->rest->member_count;
	return t->rest->members;
}

const struct type_constant *type_constants(const struct type *t, size_t *n)
{
	type_fill(t);
	*n = t->rest->constant_count;
	return t->rest->constants;
}

const struct type *type_target(const struct type *t)
{
	type_fill(t);
	if (!t->rest->target)
		return type_none(t->rest->s);
	t->rest->target = type_completed(t->rest->target);
	return t->rest->target;
}

bool type_has_members(const struct type *t)
{
	return t->kind == TYPE_STRUCT || t->kind == TYPE_UNION;
}

bool type_is_number(const struct type *t)
{
	if (t->refusal)
		return false;
	switch (t->kind) {
	case TYPE_UNKNOWN:
	case TYPE_INTEGER:
	case TYPE_BOOL:
	case TYPE_CHARACTER:
	case TYPE_ENUM:
	case TYPE_POINTER:
	case TYPE_REFERENCE:
		return t->size == 1 || t->size == 2 || t->size == 4 || t->size == 8;
	default:
		return false;
	}
}

uint64_t type_address_size(struct symbols *s)
{
	return symbols_is_32bit(s) ? 4 : 8;
}

const struct type *type_pointer_to(struct symbols *s, const struct type *t)
{
	char name[256];

	snprintf(name, sizeof(name), "%.240s%s*", t->name, t->kind == TYPE_POINTER ? "" : " ");
	struct type *pointer = type_new(s, TYPE_POINTER, name, type_address_size(s));
	if (pointer->kind == TYPE_POINTER) {
		pointer->rest->target = t;
		pointer->rest->filled = true;
	}
	return pointer;
}

#define OF_ADDRESS UINT64_MAX /* the target's, which may be a 32-bit program */

static const struct builtin {
	const char *name;
	enum type_kind kind;
	bool is_signed;
	uint64_t size;
} builtins[] = {
	{ "bool", TYPE_BOOL, false, 1 },
	{ "_Bool", TYPE_BOOL, false, 1 },
	{ "char", TYPE_CHARACTER, true, 1 },
	{ "signed char", TYPE_CHARACTER, true, 1 },
	{ "unsigned char", TYPE_CHARACTER, false, 1 },
	{ "short", TYPE_INTEGER, true, 2 },
	{ "unsigned short", TYPE_INTEGER, false, 2 },
	{ "int", TYPE_INTEGER, true, 4 },
	{ "unsigned int", TYPE_INTEGER, false, 4 },
	{ "long", TYPE_INTEGER, true, OF_ADDRESS },
	{ "unsigned long", TYPE_INTEGER, false, OF_ADDRESS },
	{ "long long", TYPE_INTEGER, true, 8 },
	{ "unsigned long long", TYPE_INTEGER, false, 8 },
	{ "float", TYPE_FLOAT, true, 4 },
	{ "double", TYPE_FLOAT, true, 8 },
	{ "size_t", TYPE_INTEGER, false, OF_ADDRESS },
	{ "ssize_t", TYPE_INTEGER, true, OF_ADDRESS },
	{ "uintptr_t", TYPE_INTEGER, false, OF_ADDRESS },
	{ "intptr_t", TYPE_INTEGER, true, OF_ADDRESS },
	{ "u8", TYPE_INTEGER, false, 1 },
	{ "s8", TYPE_INTEGER, true, 1 },
	{ "u16", TYPE_INTEGER, false, 2 },
	{ "s16", TYPE_INTEGER, true, 2 },
	{ "u32", TYPE_INTEGER, false, 4 },
	{ "s32", TYPE_INTEGER, true, 4 },
	{ "u64", TYPE_INTEGER, false, 8 },
	{ "s64", TYPE_INTEGER, true, 8 },
	{ "uint8_t", TYPE_INTEGER, false, 1 },
	{ "int8_t", TYPE_INTEGER, true, 1 },
	{ "uint16_t", TYPE_INTEGER, false, 2 },
	{ "int16_t", TYPE_INTEGER, true, 2 },
	{ "uint32_t", TYPE_INTEGER, false, 4 },
	{ "int32_t", TYPE_INTEGER, true, 4 },
	{ "uint64_t", TYPE_INTEGER, false, 8 },
	{ "int64_t", TYPE_INTEGER, true, 8 },
	{ "void", TYPE_VOID, false, 0 },
};

/* How often a word is in a type's name; words are parted by one blank. */
static int count_word(const char *name, const char *word)
{
	size_t n = strlen(word);
	int count = 0;

	for (const char *p = name; *p; p += strcspn(p, " "), p += strspn(p, " "))
		count += !strncmp(p, word, n) && (p[n] == ' ' || !p[n]);
	return count;
}

/* `long unsigned int` in C's shortest way: `unsigned long`. False: no such words. */
static bool builtin_name(const char *name, char *out, size_t n)
{
	static const char *const words[] = { "unsigned", "signed", "short", "long", "int", "char" };
	int longs = count_word(name, "long");
	int known = 0;
	int all = 1;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		known += count_word(name, words[i]);
	for (const char *p = name; *p; p++)
		all += *p == ' ';
	if (known != all || longs > 2)
		return false;
	bool is_char = count_word(name, "char");
	const char *size = is_char		     ? "char" :
			   count_word(name, "short") ? "short" :
			   longs == 2		     ? "long long" :
			   longs		     ? "long" :
						       "int";
	const char *sign = count_word(name, "unsigned")		 ? "unsigned " :
			   is_char && count_word(name, "signed") ? "signed " :
								   "";
	snprintf(out, n, "%s%s", sign, size);
	return true;
}

const struct type *type_builtin(struct symbols *s, const char *name)
{
	char plain[64];

	if (!builtin_name(name, plain, sizeof(plain)))
		snprintf(plain, sizeof(plain), "%s", name);
	for (size_t i = 0; i < sizeof(builtins) / sizeof(builtins[0]); i++) {
		const struct builtin *b = &builtins[i];
		if (strcmp(b->name, plain) != 0)
			continue;
		uint64_t size = b->size == OF_ADDRESS ? type_address_size(s) : b->size;
		struct type *t = type_new(s, b->kind, b->name, size);
		if (t->kind == b->kind) {
			t->is_signed = b->is_signed;
			t->rest->filled = true;
		}
		return t;
	}
	return NULL;
}

const struct type *type_bytes(struct symbols *s, uint64_t size)
{
	char name[32];

	snprintf(name, sizeof(name), "%llu bytes", (unsigned long long)size);
	struct type *t = type_new(s, TYPE_UNKNOWN, name, size);
	t->rest->filled = true;
	return t;
}

struct member_search {
	const char *name;
	const char *base; /* of `Base::name`, else NULL */
	size_t base_len;
	struct type_place *out;
	int found;
	unsigned int visits;
};

static bool is_base_wanted(const struct member_search *f, const struct type *t)
{
	if (!f->base)
		return true;
	const char *name = t->name;
	size_t n = strlen(name);
	/* The last part of ns::Base suffices. */
	if (n < f->base_len || strncmp(name + n - f->base_len, f->base, f->base_len) != 0)
		return false;
	return n == f->base_len || (n > f->base_len + 1 && name[n - f->base_len - 1] == ':');
}

static void member_search(const struct type *t, struct member_search *f, struct type_place at,
			  unsigned int depth, bool in_base);

/* What lies inside a member that has no name of its own, or is a base. */
static void member_enter(const struct type_member *m, struct member_search *f, struct type_place at,
			 unsigned int depth, bool in_base)
{
	if (m->vtable_offset) {
		at.table_at = at.offset;
		at.vtable_offset = m->vtable_offset;
		at.offset = 0;
	} else {
		at.offset += m->offset;
	}
	member_search(m->type, f, at, depth + 1,
		      in_base || (m->is_base && is_base_wanted(f, m->type)));
}

static void member_search(const struct type *t, struct member_search *f, struct type_place at,
			  unsigned int depth, bool in_base)
{
	size_t n;
	const struct type_member *members = type_members(t, &n);
	int before = f->found;

	if (depth > NESTING_MAX || f->visits == VISITS_MAX)
		return;
	f->visits++;
	for (size_t i = 0; i < n && (in_base || !f->base); i++) {
		const struct type_member *m = &members[i];
		if (m->is_base || !m->name || strcmp(m->name, f->name) != 0)
			continue;
		at.offset += m->offset;
		at.type = m->type;
		at.bit_offset = m->bit_offset;
		at.bit_size = m->bit_size;
		*f->out = at;
		f->found++;
		return;
	}
	for (size_t i = 0; i < n; i++)
		if ((!members[i].name || members[i].is_base) && type_has_members(members[i].type))
			member_enter(&members[i], f, at, depth, in_base);
	/* A virtual base reached by two ways is one. */
	if (f->found > before + 1 && f->out->vtable_offset)
		f->found = before + 1;
}

int type_member_find(const struct type *t, const char *name, struct type_place *out)
{
	const char *colon = strrchr(name, ':');
	struct type_place place;
	struct member_search f = { .name = name, .out = &place };

	if (colon && colon > name) {
		f.name = colon + 1;
		f.base = name;
		f.base_len = (size_t)(colon - 1 - name);
	}
	member_search(t, &f, (struct type_place){ 0 }, 0, is_base_wanted(&f, t));
	if (!f.found)
		return -ENOENT;
	*out = place;
	return f.found > 1 ? -ENOTUNIQ : 0;
}

static void members_near(const struct type *t, struct near_list *list, unsigned int depth,
			 unsigned int *visits)
{
	size_t n;
	const struct type_member *members = type_members(t, &n);

	for (size_t i = 0; i < n && depth < NESTING_MAX && *visits < VISITS_MAX; i++) {
		(*visits)++;
		if (members[i].name && !members[i].is_base)
			near_add(list, members[i].name);
		else if (type_has_members(members[i].type))
			members_near(members[i].type, list, depth + 1, visits);
	}
}

size_t type_members_near(const struct type *t, const char *name, const char **names, size_t n)
{
	struct near_list list = { .wanted = name, .names = names, .max = n };
	unsigned int visits = 0;

	members_near(t, &list, 0, &visits);
	return list.count;
}
