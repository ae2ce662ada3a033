/* SPDX-License-Identifier: MIT */
/* collection.c - see collection.h. */
#include "report/lang/collection.h"

#include "report/dwarf/types_priv.h"
#include "report/lang/member.h"

#include <stdlib.h>
#include <string.h>

static bool is_any(const struct type *t, const char *const *names)
{
	for (; *names; names++)
		if (is_template(t, *names))
			return true;
	return false;
}

#define IS_ANY(t, ...) is_any(t, (const char *const[]){ __VA_ARGS__, NULL })

static bool take_count(struct collection *out, const struct type_place *count)
{
	if (!type_is_number(count->type) || count->type->size > 8 || !count->type->size)
		return false;
	out->count = count->type;
	out->count_at = count->offset;
	return true;
}

static bool is_pointer(const struct type_place *p)
{
	return p->type->kind == TYPE_POINTER && p->type->size == 8;
}

/* GCC states the parameter in the base of the allocator alone. */
static const struct type *node_of_allocator(const struct type *t)
{
	size_t n;
	const struct type_member *m = type_members(t, &n);
	const struct type *node = type_template(t);

	if (!node && n && m[0].is_base)
		node = type_template(m[0].type);
	return node && IS_ANY(node, "_Rb_tree_node", "_Hash_node", "_List_node") ? node : NULL;
}

/*
 * The nodes are those of an allocator, which is a base, or the parameter of a base:
 * `allocator<_List_node<int>>`.
 */
static const struct type *node_of(const struct type *t, unsigned int depth)
{
	size_t n;
	const struct type_member *m = type_members(t, &n);
	const struct type *found = NULL;

	if (IS_ANY(t, "allocator", "__allocator_base", "new_allocator", "__new_allocator"))
		return node_of_allocator(t);
	for (size_t i = 0; i < n && !found && depth < 4; i++)
		if (m[i].is_base)
			found = node_of(m[i].type, depth + 1);
	const struct type *parameter = found ? NULL : type_template(t);
	if (parameter && is_template(parameter, "allocator"))
		return node_of_allocator(parameter);
	return found;
}

/* Where a node has its value. */
static bool take_node(struct collection *out, const struct type *node)
{
	struct type_place value;

	out->value = node ? type_template(node) : NULL;
	if (!out->value || !out->value->size ||
	    (!MEMBER(node, &value, "_M_storage") && !MEMBER(node, &value, "_M_data") &&
	     !MEMBER(node, &value, "_M_value_field")) ||
	    value.type->size < out->value->size)
		return false;
	out->value_at = value.offset;
	return true;
}

static bool is_tree(const struct type *t, struct collection *out)
{
	struct type_place impl;
	struct type_place count;
	struct type_place first;
	struct type_place root;
	struct type_place p[3];

	if (!MEMBER(t, &impl, "_M_t", "_M_impl") ||
	    !MEMBER(t, &count, "_M_t", "_M_impl", "_M_node_count") ||
	    !MEMBER(t, &first, "_M_t", "_M_impl", "_M_header", "_M_left") ||
	    !MEMBER(t, &root, "_M_t", "_M_impl", "_M_header", "_M_parent") || !is_pointer(&first) ||
	    !is_pointer(&root) || !take_count(out, &count))
		return false;
	out->kind = COLLECTION_COUNT;
	const struct type *node = node_of(impl.type, 0);
	if (!take_node(out, node) || !MEMBER(node, &p[0], "_M_left") ||
	    !MEMBER(node, &p[1], "_M_right") || !MEMBER(node, &p[2], "_M_parent"))
		return true;
	out->kind = COLLECTION_TREE;
	out->first_at = first.offset;
	out->root_at = root.offset;
	out->left_at = p[0].offset;
	out->right_at = p[1].offset;
	out->parent_at = p[2].offset;
	return true;
}

static bool take_chain(struct collection *out, const struct type_place *first,
		       const struct type *node, const char *next_name)
{
	struct type_place next;

	out->kind = COLLECTION_COUNT;
	if (!is_pointer(first) || !take_node(out, node) || !MEMBER(node, &next, next_name) ||
	    !is_pointer(&next))
		return true;
	out->kind = COLLECTION_CHAIN;
	out->first_at = first->offset;
	out->next_at = next.offset;
	return true;
}

static bool is_chain(const struct type *t, struct collection *out)
{
	struct type_place count;
	struct type_place first;
	struct type_place part;

	if (MEMBER(t, &part, "_M_h") && MEMBER(t, &count, "_M_h", "_M_element_count") &&
	    MEMBER(t, &first, "_M_h", "_M_before_begin", "_M_nxt") && take_count(out, &count))
		return take_chain(out, &first, node_of(part.type, 0), "_M_nxt");
	if (!MEMBER(t, &part, "_M_impl") || !MEMBER(t, &count, "_M_impl", "_M_node", "_M_size") ||
	    !MEMBER(t, &first, "_M_impl", "_M_node", "_M_next") || !take_count(out, &count))
		return false;
	out->is_list = true;
	return take_chain(out, &first, node_of(part.type, 0), "_M_next");
}

static bool is_optional(const struct type *t, struct collection *out)
{
	struct type_place engaged;
	struct type_place value;

	if (!is_template(t, "optional"))
		return false;
	if ((!MEMBER(t, &engaged, "_M_payload", "_M_engaged") ||
	     !MEMBER(t, &value, "_M_payload", "_M_payload", "_M_value")) &&
	    (!MEMBER(t, &engaged, "__engaged_") || !MEMBER(t, &value, "__val_")))
		return false;
	out->kind = COLLECTION_OPTIONAL;
	out->value = value.type;
	out->value_at = value.offset;
	return engaged.type->kind == TYPE_BOOL && take_count(out, &engaged);
}

static bool is_variant(const struct type *t, struct collection *out)
{
	struct type_place index;
	struct type_place part;

	if (!is_template(t, "variant") || !MEMBER(t, &part, "_M_u") ||
	    !MEMBER(t, &index, "_M_index") || !take_count(out, &index))
		return false;
	out->kind = COLLECTION_VARIANT;
	out->alternatives = part.type;
	out->alternatives_at = part.offset;
	return true;
}

bool collection_alternative(const struct collection *c, uint64_t index, const struct type **type,
			    uint64_t *offset)
{
	const struct type *t = c->alternatives;
	struct type_place place;
	uint64_t at = c->alternatives_at;

	for (uint64_t i = 0; i < index; i++) {
		if (i > 64 || !MEMBER(t, &place, "_M_rest"))
			return false;
		t = place.type;
		at += place.offset;
	}
	if (!MEMBER(t, &place, "_M_first"))
		return false;
	at += place.offset;
	const struct type *value = type_template(place.type);
	if (!value || !MEMBER(place.type, &place, "_M_storage") || place.type->size < value->size)
		return false;
	*type = value;
	*offset = at + place.offset;
	return true;
}

/* The first element is in the outermost struct, the others are in its base. */
size_t collection_tuple(const struct type *t, struct type_place out[COLLECTION_TUPLE_MAX])
{
	uint64_t at = 0;
	size_t used = 0;

	while (used < COLLECTION_TUPLE_MAX) {
		size_t n;
		const struct type_member *m = type_members(t, &n);
		const struct type_member *rest = NULL;
		const struct type_member *head = NULL;
		for (size_t i = 0; i < n; i++) {
			if (m[i].is_base && is_template(m[i].type, "_Tuple_impl"))
				rest = &m[i];
			else if (m[i].is_base && is_template(m[i].type, "_Head_base"))
				head = &m[i];
		}
		if (head) {
			if (!MEMBER(head->type, &out[used], "_M_head_impl"))
				return 0;
			out[used++].offset += at + head->offset;
		}
		if (!rest)
			return used;
		at += rest->offset;
		t = rest->type;
	}
	return 0;
}

static bool is_tuple(const struct type *t, struct collection *out)
{
	struct type_place element[COLLECTION_TUPLE_MAX];

	out->kind = COLLECTION_TUPLE;
	return is_template(t, "tuple") && collection_tuple(t, element);
}

static bool is_atomic(const struct type *t, struct collection *out)
{
	struct type_place value;

	if (!is_template(t, "atomic") ||
	    (!MEMBER(t, &value, "_M_i") && !MEMBER(t, &value, "_M_b", "_M_i") &&
	     !MEMBER(t, &value, "_M_b", "_M_p") && !MEMBER(t, &value, "__a_", "__a_value")))
		return false;
	out->kind = COLLECTION_INNER;
	out->value = value.type;
	out->value_at = value.offset;
	return true;
}

static bool is_libcxx_count(const struct type *t, struct collection *out)
{
	struct type_place count;

	out->kind = COLLECTION_COUNT;
	if (IS_ANY(t, "map", "multimap", "set", "multiset", "unordered_map", "unordered_multimap",
		   "unordered_set", "unordered_multiset") &&
	    (MEMBER(t, &count, "__tree_", "__pair3_", "__value_") ||
	     MEMBER(t, &count, "__tree_", "__size_") ||
	     MEMBER(t, &count, "__table_", "__p2_", "__value_") ||
	     MEMBER(t, &count, "__table_", "__size_")))
		return take_count(out, &count);
	out->is_list = true;
	return is_template(t, "list") &&
	       (MEMBER(t, &count, "__size_alloc_", "__value_") || MEMBER(t, &count, "__size_")) &&
	       take_count(out, &count);
}

static bool is_rust_count(const struct type *t, struct collection *out)
{
	struct type_place count;

	out->kind = COLLECTION_COUNT;
	if (IS_ANY(t, "HashMap", "HashSet") &&
	    (MEMBER(t, &count, "base", "table", "table", "items") ||
	     MEMBER(t, &count, "base", "map", "table", "table", "items") ||
	     MEMBER(t, &count, "table", "table", "items") ||
	     MEMBER(t, &count, "map", "table", "table", "items")))
		return take_count(out, &count);
	if (IS_ANY(t, "BTreeMap", "BTreeSet") &&
	    (MEMBER(t, &count, "root") || MEMBER(t, &count, "map", "root")) &&
	    (MEMBER(t, &count, "length") || MEMBER(t, &count, "map", "length")))
		return take_count(out, &count);
	out->is_list = true;
	return is_template(t, "VecDeque") && MEMBER(t, &count, "len") && take_count(out, &count);
}

/* What a map of Go points to. */
static bool is_go_map(const struct type *t, struct collection *out)
{
	struct type_place count;
	struct type_place other;

	if (is_template(t, "hash"))
		return MEMBER(t, &count, "count") && MEMBER(t, &other, "buckets") &&
		       take_count(out, &count);
	return is_template(t, "map") && MEMBER(t, &count, "used") && MEMBER(t, &other, "dirPtr") &&
	       take_count(out, &count);
}

typedef bool (*recogniser)(const struct type *t, struct collection *out);

static bool recognise(const struct type *t, struct collection *out)
{
	static const recogniser all[] = { is_optional,	   is_variant,	  is_tuple,
					  is_atomic,	   is_tree,	  is_chain,
					  is_libcxx_count, is_rust_count, is_go_map };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		*out = (struct collection){ .kind = COLLECTION_COUNT };
		if (all[i](t, out))
			return true;
	}
	return false;
}

/* The answer for a type, which stays. */
struct known_collection {
	bool is_one;
	struct collection collection;
};

bool collection_of(const struct type *t, struct collection *out)
{
	/* Their words are read as those of a 64-bit program. */
	if (t->kind != TYPE_STRUCT || type_address_size(t->rest->s) != 8)
		return false;
	struct known_collection *known = t->rest->collection;
	if (known) {
		*out = known->collection;
		return known->is_one;
	}
	bool is_one = recognise(t, out);
	known = malloc(sizeof(*known));
	if (known)
		*known = (struct known_collection){ is_one, *out };
	t->rest->collection = known;
	return is_one;
}
