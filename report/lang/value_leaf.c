/* SPDX-License-Identifier: MIT */
/* value_leaf.c - the scalars that a range of bytes consists of. */
#include "report/lang/value.h"

#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 32
#define PATH_BYTES 256
#define VISITS_MAX 20000 /* of members: two that each have two, and so on, in the same bytes */

struct walk {
	uint64_t start; /* the range */
	uint64_t end;
	value_visitor visit;
	void *arg;
	char path[PATH_BYTES];
	unsigned int visits;
	int result;
};

static void walk_type(struct walk *w, const struct type *t, uint64_t at, unsigned int depth);

static bool is_outside(const struct walk *w, uint64_t at, uint64_t size)
{
	return at >= w->end || at + size <= w->start;
}

static void visit_leaf(struct walk *w, const struct type *t, uint64_t at, uint64_t size,
		       const struct type_member *m)
{
	struct value_leaf leaf = { .path = w->path, .type = t, .offset = at, .len = size };
	bool is_string = t->kind == TYPE_ARRAY;

	if (m && m->bit_size) {
		leaf.bit_offset = m->bit_offset;
		leaf.bit_size = m->bit_size;
		leaf.len = (m->bit_offset + m->bit_size + 7) / 8;
	}
	if (is_outside(w, leaf.offset, leaf.len))
		return;
	/* Any piece of a string is a string; a piece of a number is just bytes. */
	if (leaf.offset < w->start || leaf.offset + leaf.len > w->end) {
		uint64_t end = leaf.offset + leaf.len < w->end ? leaf.offset + leaf.len : w->end;
		leaf.offset = leaf.offset > w->start ? leaf.offset : w->start;
		leaf.len = end - leaf.offset;
		leaf.type = is_string ? t : NULL;
		leaf.bit_size = 0;
	}
	w->result = w->visit(&leaf, w->arg);
}

static void walk_members(struct walk *w, const struct type *t, uint64_t at, unsigned int depth)
{
	size_t n;
	const struct type_member *members = type_members(t, &n);
	size_t used = strlen(w->path);

	for (size_t i = 0; i < n && !w->result; i++) {
		const struct type_member *m = &members[i];
		if (m->vtable_offset ||
		    is_outside(w, at + m->offset, m->bit_size ? 9 : m->type->size))
			continue;
		if (m->name && !m->is_base)
			snprintf(w->path + used, sizeof(w->path) - used, ".%s", m->name);
		if (m->bit_size)
			visit_leaf(w, m->type, at + m->offset, m->type->size, m);
		else
			walk_type(w, m->type, at + m->offset, depth + 1);
		w->path[used] = 0;
	}
}

static void walk_array(struct walk *w, const struct type *t, uint64_t at, unsigned int depth)
{
	const struct type *element = type_target(t);
	size_t used = strlen(w->path);
	uint64_t first = w->start > at ? (w->start - at) / element->size : 0;

	for (uint64_t i = first; i < t->count && !w->result; i++) {
		if (at + i * element->size >= w->end)
			break;
		snprintf(w->path + used, sizeof(w->path) - used, "[%lld]", (long long)i + t->lower);
		walk_type(w, element, at + i * element->size, depth + 1);
		w->path[used] = 0;
	}
}

static void walk_type(struct walk *w, const struct type *t, uint64_t at, unsigned int depth)
{
	if (w->result || depth > DEPTH_MAX || w->visits == VISITS_MAX || is_outside(w, at, t->size))
		return;
	w->visits++;
	if (type_has_members(t))
		walk_members(w, t, at, depth);
	else if (t->kind == TYPE_ARRAY && type_target(t)->size &&
		 type_target(t)->kind != TYPE_CHARACTER)
		walk_array(w, t, at, depth);
	else
		visit_leaf(w, t, at, t->size, NULL);
}

int value_leaves(const struct type *t, uint64_t offset, uint64_t len, value_visitor visit,
		 void *arg)
{
	struct walk w = { .start = offset, .end = offset + len, .visit = visit, .arg = arg };

	walk_type(&w, t, 0, 0);
	return w.result;
}
