/* SPDX-License-Identifier: MIT */
/* container.c - see container.h. */
#include "report/lang/container.h"

#include "report/dwarf/types_priv.h"
#include "report/lang/member.h"
#include "report/lang/value.h"
#include "report/safe/clean.h"

#include <stdlib.h>
#include <string.h>

bool member_at(const struct type *t, const char *const *names, struct type_place *out)
{
	uint64_t offset = 0;

	for (; *names; names++) {
		struct type_place place;
		/*
		 * Two bases of a tuple can have the same name: the last one has the first element.
		 */
		int err = type_has_members(t) ? type_member_find(t, *names, &place) : -1;
		if ((err && strcmp(*names, "_M_head_impl") != 0) || (err && !place.type) ||
		    place.bit_size || place.vtable_offset)
			return false;
		offset += place.offset;
		t = place.type;
		*out = place;
	}
	out->offset = offset;
	return true;
}

bool is_template(const struct type *t, const char *name)
{
	/* t->name can be that of a typedef. */
	const char *own = t->rest->die.addr ? clean_die_name(&t->rest->die) : NULL;
	size_t n = strlen(name);

	return own && !strncmp(own, name, n) && own[n] == '<';
}

static bool is_word(const struct type_place *p)
{
	return type_is_number(p->type) && p->type->size == 8;
}

/* Takes a pointer to the elements, and their number or end when there is one. */
static bool take(struct container *out, enum container_kind kind, const struct type_place *data,
		 const struct type_place *length, bool is_end)
{
	if (data->type->kind != TYPE_POINTER || data->type->size != 8 ||
	    (length && !is_word(length)))
		return false;
	*out = (struct container){ .kind = kind,
				   .element = type_target(data->type),
				   .data = data->offset,
				   .length = length ? length->offset : 0,
				   .is_end = is_end };
	return true;
}

/* A view of text has no NUL behind it. */
static bool is_view(const struct type *t, struct container *out)
{
	struct type_place data;
	struct type_place length;
	bool is_text = strstr(t->name, "string_view") != NULL;

	if (MEMBER(t, &data, "_M_str") && MEMBER(t, &length, "_M_len"))
		return take(out, CONTAINER_TEXT, &data, &length, false);
	if (is_text && (MEMBER(t, &data, "__data_") || MEMBER(t, &data, "__data")) &&
	    (MEMBER(t, &length, "__size_") || MEMBER(t, &length, "__size")))
		return take(out, CONTAINER_TEXT, &data, &length, false);
	return is_template(t, "span") && MEMBER(t, &data, "_M_ptr") &&
	       MEMBER(t, &length, "_M_extent", "_M_extent_value") &&
	       take(out, CONTAINER_SEQUENCE, &data, &length, false);
}

/* Qt 6: the pointer to the elements lies beside the one to their header. */
static bool is_qt(const struct type *t, struct container *out)
{
	struct type_place data;
	struct type_place length;

	if (t->name[0] != 'Q' || !MEMBER(t, &data, "d", "ptr") || !MEMBER(t, &length, "d", "size"))
		return false;
	return take(out,
		    !strcmp(t->name, "QString") || !strcmp(t->name, "QByteArray") ?
			    CONTAINER_TEXT :
			    CONTAINER_SEQUENCE,
		    &data, &length, false);
}

static bool is_cplusplus(const struct type *t, struct container *out)
{
	struct type_place data;
	struct type_place end;

	if (is_view(t, out) || is_qt(t, out))
		return true;
	if (MEMBER(t, &data, "_M_impl", "_M_start") && MEMBER(t, &end, "_M_impl", "_M_finish"))
		return take(out, CONTAINER_SEQUENCE, &data, &end, true);
	if (MEMBER(t, &data, "_M_dataplus", "_M_p") && MEMBER(t, &end, "_M_string_length") &&
	    take(out, CONTAINER_TEXT, &data, &end, false)) {
		out->has_nul = out->element->size == 1;
		return true;
	}
	if (is_template(t, "vector") && MEMBER(t, &data, "__begin_") && MEMBER(t, &end, "__end_"))
		return take(out, CONTAINER_SEQUENCE, &data, &end, true);
	if (is_template(t, "unique_ptr") && MEMBER(t, &data, "_M_t", "_M_t", "_M_head_impl"))
		return take(out, CONTAINER_POINTER, &data, NULL, false);
	if (MEMBER(t, &data, "_M_ptr") && MEMBER(t, &end, "_M_refcount"))
		return take(out, CONTAINER_POINTER, &data, NULL, false);
	if ((is_template(t, "unique_ptr") || is_template(t, "shared_ptr")) &&
	    (MEMBER(t, &data, "__ptr_", "__value_") || MEMBER(t, &data, "__ptr_")))
		return take(out, CONTAINER_POINTER, &data, NULL, false);
	if (is_template(t, "array") &&
	    (MEMBER(t, &data, "_M_elems") || MEMBER(t, &data, "__elems_")) &&
	    data.type->kind == TYPE_ARRAY) {
		*out = (struct container){ .kind = CONTAINER_ARRAY,
					   .element = data.type,
					   .data = data.offset };
		return true;
	}
	return false;
}

struct first_pointer {
	uint64_t offset;
	bool is_found;
};

static int pointer_visit(const struct value_leaf *leaf, void *arg)
{
	struct first_pointer *f = arg;

	if (!leaf->type || leaf->type->kind != TYPE_POINTER || leaf->len != 8)
		return 0;
	f->offset = leaf->offset;
	f->is_found = true;
	return 1;
}

/* The pointer lies some structs deep, in others in each version of the library. */
static bool is_rust_vector(const struct type *t, struct container *out)
{
	const struct type *element = type_template(t);
	struct first_pointer first = { 0 };
	struct type_place buffer;
	struct type_place length;

	if (!element || !MEMBER(t, &buffer, "buf") || !MEMBER(t, &length, "len") ||
	    !is_word(&length))
		return false;
	value_leaves(buffer.type, 0, buffer.type->size, pointer_visit, &first);
	if (!first.is_found)
		return false;
	*out = (struct container){ .kind = CONTAINER_SEQUENCE,
				   .element = element,
				   .data = buffer.offset + first.offset,
				   .length = length.offset };
	return true;
}

static bool is_rust(const struct type *t, struct container *out)
{
	struct type_place data;
	struct type_place length;

	if (MEMBER(t, &data, "data_ptr") && MEMBER(t, &length, "length"))
		return take(out, strstr(t->name, "str") ? CONTAINER_TEXT : CONTAINER_SEQUENCE,
			    &data, &length, false);
	if (strstr(t->name, "Vec<"))
		return is_rust_vector(t, out);
	if (!strstr(t->name, "String") || !MEMBER(t, &data, "vec") ||
	    !is_rust_vector(data.type, out))
		return false;
	out->kind = CONTAINER_TEXT;
	out->data += data.offset;
	out->length += data.offset;
	return true;
}

static bool is_go(const struct type *t, struct container *out)
{
	struct type_place data;
	struct type_place length;

	if (t->size == 16 && MEMBER(t, &data, "str") && MEMBER(t, &length, "len"))
		return take(out, CONTAINER_TEXT, &data, &length, false);
	return t->size == 24 && MEMBER(t, &data, "array") && MEMBER(t, &length, "len") &&
	       take(out, CONTAINER_SEQUENCE, &data, &length, false);
}

/* The answer for a type, which stays. */
struct known_container {
	bool is_one;
	struct container container;
};

bool container_of(const struct type *t, struct container *out)
{
	/* Their words are read as those of a 64-bit program. */
	if (t->kind != TYPE_STRUCT || type_address_size(t->rest->s) != 8)
		return false;
	struct known_container *known = t->rest->container;
	if (known) {
		*out = known->container;
		return known->is_one;
	}
	struct container c = { 0 };
	bool is_one = is_cplusplus(t, &c) || is_rust(t, &c) || is_go(t, &c);
	known = malloc(sizeof(*known));
	if (known)
		*known = (struct known_container){ is_one, c };
	t->rest->container = known;
	*out = c;
	return is_one;
}
