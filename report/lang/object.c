/* SPDX-License-Identifier: MIT */
/*
 * object.c - see object.h. What pointers lead to is read when the text is made, from copies where
 * there are some.
 */
#include "report/lang/object.h"

#include "report/lang/container.h"
#include "report/lang/value.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 8
#define SHOWN_MAX 8 /* elements of a sequence */
#define TEXT_SHOWN 40

struct writer {
	struct object *o;
	char *buf;
	size_t n;
	size_t used;
};

static void write_at(struct writer *w, const struct type *t, uint64_t offset, unsigned int depth);

__attribute__((format(printf, 2, 3))) static void put(struct writer *w, const char *format, ...)
{
	va_list args;

	if (w->used + 1 >= w->n)
		return;
	va_start(args, format);
	vsnprintf(w->buf + w->used, w->n - w->used, format, args);
	va_end(args);
	w->used += strlen(w->buf + w->used);
}

/* States why bytes are not known; false: they are. */
static bool put_unknown(struct writer *w, uint64_t offset, uint64_t size)
{
	const struct object *o = w->o;
	uint8_t state = OBJECT_KNOWN;

	if (offset + size > OBJECT_BYTES_MAX) {
		put(w, "...");
		return true;
	}
	for (uint64_t i = 0; i < size && state == OBJECT_KNOWN; i++)
		state = o->state[offset + i];
	if (state == OBJECT_GONE)
		put(w, "<optimized out>");
	else if (state == OBJECT_UNREADABLE)
		put(w, "<unreadable>");
	else if (state >= OBJECT_VECTOR)
		put(w, "<in xmm%d: not recorded>", state - OBJECT_VECTOR);
	return state != OBJECT_KNOWN;
}

static uint64_t number_at(const struct object *o, uint64_t offset, uint64_t size)
{
	uint64_t value = 0;

	memcpy(&value, o->bytes + offset, size < 8 ? size : 8);
	return value;
}

/* Memory of the target as an object of its own. */
static void write_elsewhere(struct writer *w, const struct type *t, uint64_t address,
			    unsigned int depth)
{
	struct object *there = calloc(1, sizeof(*there));
	uint64_t size = t->size < OBJECT_BYTES_MAX ? t->size : OBJECT_BYTES_MAX;
	struct writer inner = { there, w->buf, w->n, w->used };

	if (!there)
		return;
	there->s = w->o->s;
	if (symbols_read_copied(there->s, address, there->bytes, size))
		put(&inner, "<unreadable>");
	else
		write_at(&inner, t, 0, depth + 1);
	w->used = inner.used;
	free(there);
}

static const char *captured_at(const struct object *o, uint64_t offset, size_t n)
{
	for (size_t i = 0; i < o->captures; i++)
		if (o->capture[i].offset == offset && strlen(o->capture[i].text) >= n)
			return o->capture[i].text;
	return NULL;
}

/* offset: of the pointer to the text in the value. */
static void write_text(struct writer *w, uint64_t offset, uint64_t data, uint64_t length)
{
	char text[TEXT_SHOWN + 2];
	size_t n = length < sizeof(text) ? (size_t)length : sizeof(text);
	const char *captured = captured_at(w->o, offset, n);

	if (w->used + 8 >= w->n)
		return;
	if (captured)
		memcpy(text, captured, n);
	else if (n && symbols_read_copied(w->o->s, data, text, n)) {
		put(w, "<%" PRIu64 " bytes, unreadable>", length);
		return;
	}
	if (value_quote(text, n, TEXT_SHOWN, w->buf + w->used, w->n - w->used))
		w->used += strlen(w->buf + w->used);
	else
		put(w, "<%" PRIu64 " bytes>", length);
}

static void write_sequence(struct writer *w, const struct type *element, uint64_t data,
			   uint64_t length, unsigned int depth)
{
	put(w, "[");
	for (uint64_t i = 0; i < length && i < SHOWN_MAX && element->size; i++) {
		put(w, "%s", i ? ", " : "");
		write_elsewhere(w, element, data + i * element->size, depth);
	}
	if (length > SHOWN_MAX || !element->size)
		put(w, "%s%" PRIu64 " in all", length ? ", ... " : "", length);
	put(w, "]");
}

static void write_container(struct writer *w, const struct container *c, const struct type *t,
			    uint64_t offset, unsigned int depth)
{
	if (c->kind == CONTAINER_ARRAY) {
		write_at(w, c->element, offset + c->data, depth + 1);
		return;
	}
	if (put_unknown(w, offset + c->data, 8))
		return;
	uint64_t data = number_at(w->o, offset + c->data, 8);
	if (c->kind == CONTAINER_POINTER) {
		put(w, data ? "0x%" PRIx64 : "NULL", data);
		return;
	}
	if (put_unknown(w, offset + c->length, 8))
		return;
	uint64_t length = number_at(w->o, offset + c->length, 8);
	if (c->is_end)
		length = c->element->size ? (length - data) / c->element->size : 0;
	if (c->kind == CONTAINER_TEXT)
		write_text(w, offset + c->data, data, length);
	else
		write_sequence(w, c->element, data, length, depth);
}

/* `__0` of a tuple, in Rust. */
static bool is_tuple_member(const char *name)
{
	return name && name[0] == '_' && name[1] == '_' && name[2] >= '0' && name[2] <= '9';
}

static void write_members(struct writer *w, const struct type *t, uint64_t offset,
			  unsigned int depth)
{
	size_t n;
	const struct type_member *m = type_members(t, &n);
	bool is_tuple = n && is_tuple_member(m[0].name);

	put(w, is_tuple ? "(" : "{");
	for (size_t i = 0; i < n && w->used + 1 < w->n; i++) {
		put(w, "%s", i ? ", " : "");
		if (!is_tuple && m[i].name)
			put(w, ".%s ", m[i].name);
		if (m[i].bit_size || m[i].vtable_offset)
			put(w, "...");
		else
			write_at(w, m[i].type, offset + m[i].offset, depth + 1);
	}
	put(w, is_tuple ? ")" : "}");
}

static const struct type_variant *variant_of(const struct type_variants *v, uint64_t number)
{
	const struct type_variant *other = NULL;
	uint64_t bits = v->discriminant ? v->discriminant->size * 8 : 64;
	uint64_t mask = bits < 64 ? (UINT64_C(1) << bits) - 1 : UINT64_MAX;

	for (size_t i = 0; i < v->count; i++) {
		if (v->variant[i].is_default)
			other = &v->variant[i];
		else if (((uint64_t)v->variant[i].value & mask) == (number & mask))
			return &v->variant[i];
	}
	return other;
}

static void write_variant(struct writer *w, const struct type_variants *v, const struct type *t,
			  uint64_t offset, unsigned int depth)
{
	uint64_t at = offset + v->offset;
	size_t n;

	if (v->discriminant && put_unknown(w, at, v->discriminant->size))
		return;
	const struct type_variant *variant =
		variant_of(v, v->discriminant ? number_at(w->o, at, v->discriminant->size) : 0);
	if (!variant) {
		put(w, "<no variant of %s>", t->name);
		return;
	}
	put(w, "%s", variant->name);
	type_members(variant->type, &n);
	if (n)
		write_members(w, variant->type, offset + variant->offset, depth + 1);
}

static void write_array(struct writer *w, const struct type *t, uint64_t offset, unsigned int depth)
{
	const struct type *element = type_target(t);

	put(w, "[");
	for (uint64_t i = 0; i < t->count && i < SHOWN_MAX; i++) {
		put(w, "%s", i ? ", " : "");
		write_at(w, element, offset + i * element->size, depth + 1);
	}
	put(w, "%s]", t->count > SHOWN_MAX ? ", ..." : "");
}

/*
 * The type in a Go interface: the table of its methods has a name,
 * `go.itab.*main.Square,main.Shape`.
 */
static void write_interface(struct writer *w, uint64_t table, uint64_t data)
{
	struct place place;

	if (!table) {
		put(w, "nil");
		return;
	}
	symbols_data_place(w->o->s, table, &place);
	const char *name = place.function && !place.offset ? strstr(place.function, "itab.") : NULL;
	if (name)
		put(w, "(%.*s)", (int)strcspn(name + 5, ","), name + 5);
	put(w, "0x%" PRIx64, data);
}

static bool is_interface(const struct type *t, const struct type_member **m)
{
	size_t n;

	*m = type_members(t, &n);
	return n == 2 && t->size == 16 && (*m)[0].name && (*m)[1].name &&
	       !strcmp((*m)[1].name, "data") &&
	       (!strcmp((*m)[0].name, "tab") || !strcmp((*m)[0].name, "_type"));
}

static void write_struct(struct writer *w, const struct type *t, uint64_t offset,
			 unsigned int depth)
{
	const struct type_variants *variants = type_variants(t);
	const struct type_member *m;
	struct container c;

	if (variants)
		write_variant(w, variants, t, offset, depth);
	else if (container_of(t, &c))
		write_container(w, &c, t, offset, depth);
	else if (is_interface(t, &m) && !put_unknown(w, offset, t->size))
		write_interface(w, number_at(w->o, offset, 8), number_at(w->o, offset + 8, 8));
	else if (!is_interface(t, &m))
		write_members(w, t, offset, depth);
}

static void write_at(struct writer *w, const struct type *t, uint64_t offset, unsigned int depth)
{
	if (depth > DEPTH_MAX || w->used + 1 >= w->n) {
		put(w, "...");
	} else if (t->refusal) {
		put(w, "<not read: %s>", t->refusal);
	} else if (t->kind == TYPE_STRUCT) {
		write_struct(w, t, offset, depth);
	} else if (t->kind == TYPE_ARRAY && type_target(t)->size) {
		write_array(w, t, offset, depth);
	} else if (!t->size) {
		put(w, "()");
	} else if (!put_unknown(w, offset, t->size)) {
		uint64_t words[2] = { number_at(w->o, offset, 8), 0 };
		if (t->size > 16) {
			put(w, "<%" PRIu64 " bytes>", t->size);
		} else if (t->size > 8) {
			words[1] = number_at(w->o, offset + 8, t->size - 8);
			value_wide_text(t, words, w->buf + w->used, w->n - w->used);
		} else
			value_number_text(w->o->s, t, number_at(w->o, offset, t->size),
					  w->buf + w->used, w->n - w->used);
		w->used += strlen(w->buf + w->used);
	}
}

void object_text(struct object *o, const struct type *t, char *buf, size_t n)
{
	struct writer w = { .o = o, .buf = buf, .n = n };

	buf[0] = 0;
	write_at(&w, t, 0, 0);
}
