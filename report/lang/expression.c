/* SPDX-License-Identifier: MIT */
/* expression.c - see expression.h: the text, and paths that are followed again. */
#include "report/lang/expression.h"
#include "report/lang/expression_spot.h"

#include <errno.h>

#define DEPTH_MAX 64

int expression_parse(const char *text, struct expression **out, struct expression_error *error)
{
	return tree_of_place(text, out, error);
}

void expression_free(struct expression *e)
{
	tree_free(e);
}

bool expression_has_offset(const struct expression *e)
{
	return e->has_offset;
}

const char *expression_no_value(const struct expression *e)
{
	if (e->has_offset)
		return "a value has no arithmetic here, and +offset counts bytes of memory; give the "
		       "variable alone";
	return expression_length(e) ? "a value has no :length; give the variable alone" : NULL;
}

uint64_t expression_length(const struct expression *e)
{
	return e->length;
}

int expression_path_follow(struct symbols *s, const struct expression_path *path, uint64_t value,
			   uint64_t *out)
{
	uint64_t at = path->base + value;

	for (size_t i = 0; i < path->links; i++) {
		if (symbols_read(s, at, &at, sizeof(at)) || !at)
			return -EFAULT;
		at += path->offsets[i];
	}
	*out = at;
	return 0;
}

void spot_add(struct spot *p, uint64_t offset)
{
	p->address += offset;
	if (p->path.links)
		p->path.offsets[p->path.links - 1] += offset;
	else
		p->path.base += offset;
}

void spot_cover_bits(struct spot *p, uint64_t *size)
{
	for (*size = 1; *size <= 8; *size *= 2) {
		uint64_t back = p->address % *size;
		if (p->bit_offset + back * 8 + p->bit_size > *size * 8)
			continue;
		spot_add(p, -back);
		p->bit_offset += (uint32_t)back * 8;
		return;
	}
	*size = (p->bit_offset + p->bit_size + 7) / 8;
}

void spot_apply_offset(const struct expression *e, struct spot *p)
{
	const struct type *t = p->type;

	spot_add(p, e->is_negative ? -e->offset : e->offset);
	p->size = p->size > e->offset && !e->is_negative ? p->size - e->offset : 0;
	p->type = NULL;
	p->bit_size = 0;
	uint64_t at = e->is_negative ? UINT64_MAX : e->offset;
	for (int depth = 0; t && depth < DEPTH_MAX; depth++) {
		size_t n;
		const struct type_member *m = type_members(t, &n);
		if (at == 0 && t->size == e->length && t->size) {
			p->type = t;
			return;
		}
		if (t->kind == TYPE_ARRAY && type_target(t)->size) {
			t = at < t->size ? type_target(t) : NULL;
			at = t ? at % t->size : at;
			continue;
		}
		const struct type *inner = NULL;
		for (size_t i = 0; i < n && !inner; i++)
			if (!m[i].bit_size && !m[i].vtable_offset &&
			    at - m[i].offset < m[i].type->size)
				inner = m[i].type, at -= m[i].offset;
		if (!inner && at == 0 && !n && (!e->length || e->length == t->size))
			p->type = t;
		t = inner;
	}
}
