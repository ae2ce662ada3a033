/* SPDX-License-Identifier: MIT */
/* block_type.c - see block_type.h. */
#include "report/lang/block_type.h"

#include "report/dwarf/dies.h"
#include "report/dwarf/types_priv.h"
#include "report/dwarf/unit.h"
#include "report/safe/clean.h"

#include <dwarf.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MEMBERS_DEEP 16

struct guess {
	struct symbols *s;
	uint64_t bytes;
	uint64_t line; /* of the call; 0: not known */
	const struct type *type;
	const char *pointer;
	bool is_of_line; /* the pointer is declared in the line of the call */
	bool has_others; /* of another type, for reasons that are as good */
};

static bool is_function(Dwarf_Die *scope)
{
	int tag = dwarf_tag(scope);

	return tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine;
}

/* What the pointer, or smart pointer, leads to; NULL: its size is not known. */
static const struct type *pointed_to(const struct type *t)
{
	if (t->kind == TYPE_POINTER)
		t = type_completed(type_target(t));
	else
		t = type_has_members(t) ? type_template(t) : NULL;
	return t && t->size && t->name ? t : NULL;
}

/*
 * In the line of the call the pointer gets the block, which may be an array of any type. Elsewhere
 * only the size speaks for it.
 */
static void consider(struct guess *g, const struct type *pointer, const char *name, bool is_of_line)
{
	const struct type *t = pointed_to(pointer);

	if (!t || g->bytes % t->size || (g->is_of_line && !is_of_line))
		return;
	if (!is_of_line && (g->bytes != t->size || !type_has_members(t)))
		return;
	bool is_better = is_of_line && !g->is_of_line;
	if (g->type && !is_better) {
		g->has_others = g->has_others || strcmp(g->type->name, t->name) != 0;
		return;
	}
	g->type = t;
	g->pointer = name;
	g->is_of_line = is_of_line;
	g->has_others = false;
}

static void consider_variables(struct guess *g, Dwarf_Die *scope)
{
	Dwarf_Die die;

	if (dwarf_child(scope, &die))
		return;
	do {
		int tag = dwarf_tag(&die);
		uint64_t line;

		if (tag != DW_TAG_variable && tag != DW_TAG_formal_parameter)
			continue;
		consider(g, type_of_attribute(g->s, &die), clean_die_name(&die),
			 tag == DW_TAG_variable && g->line &&
				 die_number(&die, DW_AT_decl_line, &line) && line == g->line);
	} while (!dwarf_siblingof(&die, &die));
}

/* `T *allocate(n)` of the containers of C++ gives room for n objects. */
static bool is_allocate(Dwarf_Die *function)
{
	const char *name = clean_die_name(function);

	return name && !strcmp(name, "allocate");
}

/* Memory as such, or text: the caller knows what it is for. */
static bool is_passed_on(const struct type *result)
{
	return result->kind == TYPE_POINTER &&
	       (type_target(result)->kind == TYPE_VOID || type_target(result)->size == 1);
}

/* One function with its blocks: scopes[first] to scopes[last]. */
static enum block_type_found ask(struct guess *g, Dwarf_Die *scopes, int first, int last,
				 struct block_type *out)
{
	const struct type *result = type_of_attribute(g->s, &scopes[first]);

	g->type = NULL;
	g->is_of_line = g->has_others = false;
	for (int i = last; i >= first; i--)
		consider_variables(g, &scopes[i]);
	consider(g, result, NULL, is_allocate(&scopes[first]));
	if (g->type && !g->has_others) {
		*out = (struct block_type){ .type = g->type,
					    .count = g->bytes / g->type->size,
					    .pointer = g->pointer };
		const char *name = clean_die_name(&scopes[first]);
		snprintf(out->function, sizeof(out->function), "%s", name ? name : "?");
		return BLOCK_TYPE_FOUND;
	}
	return !g->type && is_passed_on(result) ? BLOCK_TYPE_WRAPPER : BLOCK_TYPE_NONE;
}

enum block_type_found block_type_find(struct symbols *s, uint64_t address, uint64_t bytes,
				      struct block_type *out)
{
	Dwfl_Module *mod = s->dwfl ? dwfl_addrmodule(s->dwfl, address) : NULL;
	struct guess g = { .s = s, .bytes = bytes };
	enum block_type_found found = BLOCK_TYPE_WRAPPER;
	Dwarf_Die scopes[DIE_SCOPES_MAX];
	Dwarf_Addr bias;
	const char *folder;
	int line = 0;

	Dwarf_Die *unit = mod && bytes ? unit_at(mod, address, &bias) : NULL;
	if (!unit)
		return BLOCK_TYPE_WRAPPER;
	int last = die_scopes(unit, address - bias, scopes) - 1;
	unit_line(mod, address, &line, &folder);
	g.line = line > 0 ? (uint64_t)line : 0;
	for (int i = last; i >= 0 && found == BLOCK_TYPE_WRAPPER; i--) {
		if (!is_function(&scopes[i]))
			continue;
		found = ask(&g, scopes, i, last, out);
		last = i - 1;
		if (!die_number(&scopes[i], DW_AT_call_line, &g.line))
			g.line = 0;
	}
	return found;
}

/* ---- members ---- */

static const struct type_member *member_at(const struct type *t, uint64_t offset)
{
	size_t n;
	const struct type_member *members = type_members(t, &n);

	for (size_t i = 0; i < n; i++)
		if (members[i].type && !members[i].vtable_offset && offset >= members[i].offset &&
		    offset - members[i].offset < members[i].type->size)
			return &members[i];
	return NULL;
}

static size_t put(char *buf, size_t used, size_t n, const char *text)
{
	int more = snprintf(buf + used, n - used, "%s", text);

	return more < 0 || (size_t)more >= n - used ? n - 1 : used + (size_t)more;
}

void block_type_member(const struct block_type *b, uint64_t offset, char *buf, size_t n)
{
	const struct type *t = b->type;
	char text[32];
	size_t used = 0;

	buf[0] = '\0';
	if (!t || offset / t->size >= b->count)
		return;
	if (b->count > 1) {
		snprintf(text, sizeof(text), "[%" PRIu64 "]", offset / t->size);
		used = put(buf, used, n, text);
		offset %= t->size;
	}
	for (int deep = 0; deep < MEMBERS_DEEP; deep++) {
		if (t->kind == TYPE_ARRAY && type_target(t)->size) {
			const struct type *element = type_target(t);

			snprintf(text, sizeof(text), "[%" PRIi64 "]",
				 t->lower + (int64_t)(offset / element->size));
			used = put(buf, used, n, text);
			offset %= element->size;
			t = element;
			continue;
		}
		const struct type_member *m = type_has_members(t) ? member_at(t, offset) : NULL;
		if (!m)
			break;
		if (m->name && !m->is_base) {
			used = put(buf, used, n, used ? "." : "");
			used = put(buf, used, n, m->name);
		}
		offset -= m->offset;
		t = m->type;
	}
	/* Padding has no name, nor has a part of it. */
	if (type_has_members(t))
		buf[0] = '\0';
}
