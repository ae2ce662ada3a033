/* SPDX-License-Identifier: MIT */
/*
 * object_collection.c - maps, lists, optional, variant and tuple as text.
 *
 * The nodes of a map may change while they are read, and its bytes may be garbage. So each walk has
 * a bound, and what it meets is printed as it is.
 */
#include "report/lang/object_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define STEPS_MAX 64 /* from one node of a tree to the next */

/* A number inside of the object, which may lie behind the bytes that were read. */
static bool word_at(struct writer *w, uint64_t offset, uint64_t size, uint64_t *out)
{
	const struct object *o = w->o;

	*out = 0;
	if (offset + size > OBJECT_BYTES_MAX && o->address) {
		if (!symbols_read_copied(o->s, o->address + offset, out, size))
			return true;
		object_put(w, "<unreadable>");
		return false;
	}
	if (object_put_unknown(w, offset, size))
		return false;
	*out = object_number_at(o, offset, size);
	return true;
}

static void write_part(struct writer *w, const struct type *t, uint64_t offset, unsigned int depth)
{
	if (offset + t->size > OBJECT_BYTES_MAX && w->o->address)
		object_write_elsewhere(w, t, w->o->address + offset, depth);
	else
		object_write(w, t, offset, depth + 1);
}

/* False: no pointer can be read there. */
static bool pointer_at(const struct writer *w, uint64_t address, uint64_t *out)
{
	return !symbols_read_copied(w->o->s, address, out, sizeof(*out));
}

/* `key: value` of a map. */
static bool write_node(struct writer *w, const struct collection *c, uint64_t node,
		       unsigned int depth)
{
	size_t n;
	const struct type_member *m = type_members(c->value, &n);
	uint64_t at = node + c->value_at;

	while (n > 2 && m[0].is_base) {
		m++;
		n--;
	}
	if (c->is_list || !strstr(c->value->name, "pair<") || n != 2)
		return object_write_elsewhere(w, c->value, at, depth);
	if (!object_write_elsewhere(w, m[0].type, at + m[0].offset, depth))
		return false;
	object_put(w, ": ");
	return object_write_elsewhere(w, m[1].type, at + m[1].offset, depth);
}

static int leftmost(const struct writer *w, const struct collection *c, uint64_t *node)
{
	uint64_t next;

	for (int i = 0; i < STEPS_MAX; i++) {
		if (!pointer_at(w, *node + c->left_at, &next))
			return -EFAULT;
		if (!next)
			return 0;
		*node = next;
	}
	return -ENOENT;
}

/* The node behind one in a tree. -ENOENT: the tree ends there, or has a loop; -EFAULT. */
static int tree_next(const struct writer *w, const struct collection *c, uint64_t header,
		     uint64_t *node)
{
	uint64_t right;
	uint64_t parent;

	if (!pointer_at(w, *node + c->right_at, &right))
		return -EFAULT;
	if (right) {
		*node = right;
		return leftmost(w, c, node);
	}
	for (int i = 0; i < STEPS_MAX; i++) {
		if (!pointer_at(w, *node + c->parent_at, &parent))
			return -EFAULT;
		if (parent == header)
			return -ENOENT;
		if (!pointer_at(w, parent + c->right_at, &right))
			return -EFAULT;
		bool was_left = right != *node;
		*node = parent;
		if (was_left)
			return 0;
	}
	return -ENOENT;
}

static int node_next(const struct writer *w, const struct collection *c, uint64_t header,
		     uint64_t *node)
{
	if (c->kind == COLLECTION_TREE)
		return tree_next(w, c, header, node);
	return !pointer_at(w, *node + c->next_at, node) ? -EFAULT : *node ? 0 : -ENOENT;
}

/* Returns how many of the elements it wrote. */
static uint64_t write_nodes(struct writer *w, const struct collection *c, uint64_t offset,
			    uint64_t count, unsigned int depth)
{
	uint64_t header = 0;
	uint64_t node;
	uint64_t root;
	uint64_t i;
	int err = 0;

	if (!count || !word_at(w, offset + c->first_at, sizeof(node), &node))
		return 0;
	/* The parent of the root is inside of the map. */
	if (c->kind == COLLECTION_TREE && (!word_at(w, offset + c->root_at, sizeof(root), &root) ||
					   !pointer_at(w, root + c->parent_at, &header)))
		err = -EFAULT;
	for (i = 0; i < count && i < OBJECT_SHOWN_MAX && w->used + 1 < w->n; i++) {
		object_put(w, "%s", i ? ", " : "");
		if (i && !err)
			err = node_next(w, c, header, &node);
		if (err) {
			object_put(w, err == -EFAULT ? "<unreadable>" : "<no node>");
			return i + 1;
		}
		if (!write_node(w, c, node, depth))
			return i + 1;
	}
	return i;
}

static void write_elements(struct writer *w, const struct collection *c, uint64_t offset,
			   unsigned int depth)
{
	uint64_t count;
	uint64_t written = 0;

	if (!word_at(w, offset + c->count_at, c->count->size, &count))
		return;
	if (count > OBJECT_LENGTH_MAX) {
		object_put(w, "<not valid: %" PRIu64 " elements>", count);
		return;
	}
	object_put(w, "%s", c->is_list ? "[" : "{");
	if (c->kind != COLLECTION_COUNT)
		written = write_nodes(w, c, offset, count, depth);
	if (written < count)
		object_put(w, "%s... %" PRIu64 " in all", written ? ", " : "", count);
	object_put(w, "%s", c->is_list ? "]" : "}");
}

static void write_optional(struct writer *w, const struct collection *c, uint64_t offset,
			   unsigned int depth)
{
	uint64_t engaged;

	if (!word_at(w, offset + c->count_at, 1, &engaged))
		return;
	if (engaged > 1)
		object_put(w, "<not valid: engaged is %" PRIu64 ">", engaged);
	else if (engaged)
		write_part(w, c->value, offset + c->value_at, depth);
	else
		object_put(w, "nullopt");
}

static void write_variant(struct writer *w, const struct collection *c, const struct type *t,
			  uint64_t offset, unsigned int depth)
{
	const struct type *value;
	uint64_t index;
	uint64_t at;
	uint64_t none = c->count->size < 8 ? (UINT64_C(1) << c->count->size * 8) - 1 : UINT64_MAX;

	if (!word_at(w, offset + c->count_at, c->count->size, &index))
		return;
	if (index == none) {
		object_put(w, "valueless");
	} else if (!collection_alternative(c, index, &value, &at)) {
		object_put(w, "<no alternative %" PRIu64 " of %.60s>", index, t->name);
	} else {
		object_put(w, "{.index %" PRIu64 ", ", index);
		write_part(w, value, offset + at, depth);
		object_put(w, "}");
	}
}

static void write_tuple(struct writer *w, const struct type *t, uint64_t offset, unsigned int depth)
{
	struct type_place element[COLLECTION_TUPLE_MAX];
	size_t n = collection_tuple(t, element);

	object_put(w, "(");
	for (size_t i = 0; i < n; i++) {
		object_put(w, "%s", i ? ", " : "");
		write_part(w, element[i].type, offset + element[i].offset, depth);
	}
	object_put(w, ")");
}

void object_write_collection(struct writer *w, const struct collection *c, const struct type *t,
			     uint64_t offset, unsigned int depth)
{
	switch (c->kind) {
	case COLLECTION_OPTIONAL:
		write_optional(w, c, offset, depth);
		break;
	case COLLECTION_VARIANT:
		write_variant(w, c, t, offset, depth);
		break;
	case COLLECTION_TUPLE:
		write_tuple(w, t, offset, depth);
		break;
	case COLLECTION_INNER:
		write_part(w, c->value, offset + c->value_at, depth);
		break;
	default:
		write_elements(w, c, offset, depth);
	}
}
