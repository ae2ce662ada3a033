/* SPDX-License-Identifier: MIT */
/* hit_copies.c - see hit_copies.h. It copies what object.c and value.c read. */
#include "cli/observe/hit_copies.h"

#include "report/lang/collection.h"
#include "report/lang/container.h"
#include "report/lang/object.h"

#include <string.h>

#define DEPTH_MAX 4
#define BYTES_MAX 192u /* of a value, as much as is shown of it */
#define TEXT_BYTES 64u
#define ELEMENTS_MAX 8
#define LARGE_BYTES 24
#define TREE_LEVELS 3

#if defined(__x86_64__)
#define REG_SP 7u
#else
#define REG_SP 31u
#endif

/* Where a value begins: in memory that can be reached, or in registers. */
struct root {
	const struct signature_value *in_registers; /* NULL: memory */
	uint64_t begins;			    /* in that variable */
	struct trapline_memory memory;
};

static bool is_copied_text(const struct hit_copies *c, const struct trapline_memory *m,
			   uint32_t flags)
{
	return flags & TRAPLINE_MEMORY_TEXT && m->reg < 32 && c->texts >> m->reg & 1 && !m->base &&
	       !m->links;
}

static void copy(struct hit_copies *c, const struct trapline_memory *m, uint64_t bytes,
		 uint32_t flags)
{
	struct trapline_memory row = *m;

	if (c->count == TRAPLINE_MEMORY_MAX || !bytes || is_copied_text(c, m, flags) ||
	    (m->reg == TRAPLINE_MEMORY_CALL && c->at != HIT_COPIES_RETURN) ||
	    (m->reg == TRAPLINE_MEMORY_ABSOLUTE && c->is_several))
		return;
	row.site = c->site;
	row.bytes = (uint32_t)(bytes < BYTES_MAX ? bytes : BYTES_MAX);
	row.flags = flags | (c->at == HIT_COPIES_RETURN ? TRAPLINE_MEMORY_RETURN : 0);
	c->row[c->count++] = row;
}

static void step(struct trapline_memory *m, uint64_t bytes)
{
	if (m->links)
		m->offsets[m->links - 1] += bytes;
	else
		m->base += bytes;
}

/*
 * m becomes what the pointer at an offset of the value leads to. False: it is not known where that
 * is.
 */
static bool follow(const struct root *r, uint64_t offset, struct trapline_memory *m)
{
	const struct signature_value *v = r->in_registers;
	uint64_t at = r->begins + offset;
	uint64_t begins;

	*m = r->memory;
	if (v) {
		int reg = signature_register_of(v, at, &begins);
		*m = (struct trapline_memory){ .reg = (uint32_t)reg };
		if (reg >= 0)
			return begins == at;
		*m = (struct trapline_memory){ .reg = REG_SP };
		for (size_t i = 0; v->where == SIGNATURE_PIECES && i < v->piece_count; i++)
			if (v->piece[i].kind == SIGNATURE_PIECE_STACK && at >= v->piece[i].offset &&
			    at + 8 <= (uint64_t)v->piece[i].offset + v->piece[i].size)
				m->base = v->piece[i].value + at - v->piece[i].offset;
		if (!m->base)
			return false;
		offset = 0;
	}
	if (m->links == TRAPLINE_MEMORY_LINKS)
		return false;
	step(m, offset);
	m->offsets[m->links++] = 0;
	return true;
}

static void copy_behind(struct hit_copies *c, const struct root *r, const struct type *t,
			uint64_t offset, unsigned int depth);

/*
 * Large elements are a copy each: a copy fails as a whole, and the page behind the last element
 * may be missing.
 */
static void copy_elements(struct hit_copies *c, const struct root *elements,
			  const struct type *element, unsigned int depth)
{
	struct root each = *elements;

	if (element->size < LARGE_BYTES)
		copy(c, &elements->memory, element->size * ELEMENTS_MAX, 0);
	for (uint64_t i = 0; i < ELEMENTS_MAX && element->size; i++) {
		if (element->size >= LARGE_BYTES)
			copy(c, &each.memory, element->size, 0);
		copy_behind(c, &each, element, 0, depth + 1);
		step(&each.memory, element->size);
	}
}

static void copy_container(struct hit_copies *c, const struct root *r, const struct container *k,
			   uint64_t offset, unsigned int depth)
{
	struct root elements = { 0 };

	if (k->kind == CONTAINER_ARRAY) {
		copy_behind(c, r, k->element, offset + k->data, depth + 1);
		return;
	}
	if (k->kind == CONTAINER_POINTER || !follow(r, offset + k->data, &elements.memory))
		return;
	if (k->kind == CONTAINER_TEXT) {
		bool is_wide = k->element->size == 2 || k->element->size == 4;
		copy(c, &elements.memory, is_wide ? TEXT_BYTES * k->element->size : TEXT_BYTES,
		     is_wide ? 0 : TRAPLINE_MEMORY_TEXT);
		return;
	}
	copy_elements(c, &elements, k->element, depth);
}

static void copy_node(struct hit_copies *c, const struct root *node, const struct collection *k,
		      unsigned int depth)
{
	copy(c, &node->memory, k->value_at + k->value->size, 0);
	copy_behind(c, node, k->value, k->value_at, depth + 1);
}

/* The nodes of a list, as far as a path of pointers may be long. */
static void copy_chain(struct hit_copies *c, const struct root *r, const struct collection *k,
		       uint64_t offset, unsigned int depth)
{
	struct root node = { 0 };

	if (!follow(r, offset + k->first_at, &node.memory))
		return;
	for (unsigned int i = 0; i < ELEMENTS_MAX; i++) {
		struct root before = node;
		copy_node(c, &node, k, depth);
		if (!follow(&before, k->next_at, &node.memory))
			return;
	}
}

/* The root of a tree and the nodes below it: all nodes of a small map. */
static void copy_below(struct hit_copies *c, const struct root *node, const struct collection *k,
		       unsigned int level, unsigned int depth)
{
	struct root child = { 0 };

	copy_node(c, node, k, depth);
	if (level == TREE_LEVELS)
		return;
	if (follow(node, k->left_at, &child.memory))
		copy_below(c, &child, k, level + 1, depth);
	if (follow(node, k->right_at, &child.memory))
		copy_below(c, &child, k, level + 1, depth);
}

static void copy_tree(struct hit_copies *c, const struct root *r, const struct collection *k,
		      uint64_t offset, unsigned int depth)
{
	struct root node = { 0 };

	/* The first one lies deep in a large map. */
	if (follow(r, offset + k->first_at, &node.memory))
		copy_node(c, &node, k, depth);
	if (follow(r, offset + k->root_at, &node.memory))
		copy_below(c, &node, k, 1, depth);
}

static void copy_alternatives(struct hit_copies *c, const struct root *r,
			      const struct collection *k, uint64_t offset, unsigned int depth)
{
	const struct type *value;
	uint64_t at;

	for (uint64_t i = 0; i < ELEMENTS_MAX && collection_alternative(k, i, &value, &at); i++)
		copy_behind(c, r, value, offset + at, depth + 1);
}

/* What lies behind the bytes that are copied of a value. */
static void copy_far(struct hit_copies *c, const struct root *r, uint64_t at, uint64_t size)
{
	struct trapline_memory m = r->memory;

	if (r->in_registers || at + size <= BYTES_MAX)
		return;
	step(&m, at);
	copy(c, &m, size, 0);
}

static void copy_collection(struct hit_copies *c, const struct root *r, const struct type *t,
			    const struct collection *k, uint64_t offset, unsigned int depth)
{
	struct type_place element[COLLECTION_TUPLE_MAX];
	size_t n;

	if (k->count)
		copy_far(c, r, offset + k->count_at, k->count->size);
	switch (k->kind) {
	case COLLECTION_CHAIN:
		copy_chain(c, r, k, offset, depth);
		break;
	case COLLECTION_TREE:
		copy_tree(c, r, k, offset, depth);
		break;
	case COLLECTION_OPTIONAL:
	case COLLECTION_INNER:
		copy_far(c, r, offset + k->value_at, k->value->size);
		copy_behind(c, r, k->value, offset + k->value_at, depth + 1);
		break;
	case COLLECTION_VARIANT:
		copy_alternatives(c, r, k, offset, depth);
		break;
	case COLLECTION_TUPLE:
		n = collection_tuple(t, element);
		for (size_t i = 0; i < n; i++)
			copy_behind(c, r, element[i].type, offset + element[i].offset, depth + 1);
		break;
	default:
		break;
	}
}

static void copy_members(struct hit_copies *c, const struct root *r, const struct type *t,
			 uint64_t offset, unsigned int depth)
{
	const struct type_variants *variants = type_variants(t);
	struct collection collection;
	struct container container;
	size_t n;

	if (variants) {
		for (size_t i = 0; i < variants->count; i++)
			copy_behind(c, r, variants->variant[i].type,
				    offset + variants->variant[i].offset, depth + 1);
		return;
	}
	if (container_of(t, &container)) {
		copy_container(c, r, &container, offset, depth);
		return;
	}
	if (collection_of(t, &collection)) {
		copy_collection(c, r, t, &collection, offset, depth);
		return;
	}
	const struct type_member *m = type_members(t, &n);
	for (size_t i = 0; i < n; i++)
		if (!m[i].bit_size && !m[i].vtable_offset)
			copy_behind(c, r, m[i].type, offset + m[i].offset, depth + 1);
}

/* What a pointer leads to, where that is printed with it. */
static void copy_target(struct hit_copies *c, const struct root *r, const struct type *t,
			uint64_t offset, unsigned int depth)
{
	const struct type *target = type_target(t);
	struct root there = { 0 };

	if (target->kind == TYPE_CHARACTER && follow(r, offset, &there.memory)) {
		copy(c, &there.memory, TEXT_BYTES, TRAPLINE_MEMORY_TEXT);
	} else if (object_shows_target(t) && follow(r, offset, &there.memory)) {
		copy(c, &there.memory, target->size, 0);
		copy_behind(c, &there, target, 0, depth + 1);
	}
}

/* What the pointers in a value lead to. */
static void copy_behind(struct hit_copies *c, const struct root *r, const struct type *t,
			uint64_t offset, unsigned int depth)
{
	if (depth > DEPTH_MAX || t->refusal || offset >= BYTES_MAX ||
	    c->count == TRAPLINE_MEMORY_MAX)
		return;
	if (t->kind == TYPE_POINTER || t->kind == TYPE_REFERENCE) {
		copy_target(c, r, t, offset, depth);
	} else if (t->kind == TYPE_ARRAY) {
		const struct type *element = type_target(t);
		for (uint64_t i = 0; i < t->count && i < ELEMENTS_MAX && element->size; i++)
			copy_behind(c, r, element, offset + i * element->size, depth + 1);
	} else if (type_has_members(t)) {
		copy_members(c, r, t, offset, depth);
	}
}

/* Where a value in memory is. False: it is in registers, or nowhere. */
static bool memory_of(const struct signature_value *v, struct trapline_memory *out)
{
	switch (v->where) {
	case SIGNATURE_STACK:
		*out = (struct trapline_memory){ .reg = REG_SP, .base = v->stack };
		return true;
	case SIGNATURE_FRAME:
		*out = (struct trapline_memory){ .reg = v->reg[0], .base = v->stack };
		return true;
	case SIGNATURE_MEMORY:
		*out = (struct trapline_memory){ .reg = v->regs ? v->reg[0] :
								  TRAPLINE_MEMORY_CALL };
		return true;
	default:
		return false;
	}
}

void hit_copies_value(struct hit_copies *c, const struct signature_value *v)
{
	struct root r = { 0 };

	if (!v->type || v->where == SIGNATURE_CONSTANT)
		return;
	if (!memory_of(v, &r.memory)) {
		r.in_registers = v;
	} else {
		copy(c, &r.memory, v->type->size, 0);
	}
	copy_behind(c, &r, v->type, 0, 0);
}

void hit_copies_signature(struct hit_copies *c, const struct signature *signature)
{
	for (size_t i = 0; i < signature->count && c->at == HIT_COPIES_CALL; i++)
		hit_copies_value(c, &signature->parameter[i]);
	if (c->at == HIT_COPIES_CALL)
		return;
	hit_copies_value(c, &signature->result);
	for (size_t i = 0; i < signature->more_count; i++)
		hit_copies_value(c, &signature->more[i]);
}

/* False: the path has no memory, or more links than can be followed. */
static bool path_memory(const struct expression_place *p, struct trapline_memory *m)
{
	const struct signature_value *v = p->parameter;
	size_t first = 0;
	uint64_t begins;

	if (!v) {
		*m = (struct trapline_memory){ .reg = TRAPLINE_MEMORY_ABSOLUTE,
					       .base = p->path.base };
	} else if (memory_of(v, m)) {
		m->base += p->path.base;
	} else {
		int reg = signature_register_of(v, p->path.base, &begins);
		if (reg < 0 || !p->path.links)
			return false;
		*m = (struct trapline_memory){ .reg = (uint32_t)reg, .base = p->path.offsets[0] };
		first = 1;
	}
	m->links = (uint32_t)(p->path.links - first);
	memcpy(m->offsets, p->path.offsets + first, m->links * sizeof(m->offsets[0]));
	return true;
}

void hit_copies_place(struct hit_copies *c, const struct expression_place *p)
{
	struct root r = { 0 };
	uint64_t size = p->bit_size || !p->type ? p->size : p->type->size;

	if (path_memory(p, &r.memory)) {
		copy(c, &r.memory, size ? size : 8, 0);
	} else {
		r.in_registers = p->parameter;
		r.begins = p->path.base;
	}
	if (p->type && !p->bit_size)
		copy_behind(c, &r, p->type, 0, 0);
}
