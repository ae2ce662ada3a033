/* SPDX-License-Identifier: MIT */
/*
 * object.c - see object.h. What pointers lead to is read when the text is made, from copies where
 * there are some.
 */
#include "report/lang/object_priv.h"

#include "report/lang/container.h"
#include "report/lang/value.h"
#include "report/lang/wide_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 8
#define TEXT_SHOWN 40

void object_put(struct writer *w, const char *format, ...)
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
bool object_put_unknown(struct writer *w, uint64_t offset, uint64_t size)
{
	const struct object *o = w->o;
	uint8_t state = OBJECT_KNOWN;

	if (offset + size > OBJECT_BYTES_MAX) {
		object_put(w, "...");
		return true;
	}
	for (uint64_t i = 0; i < size && state == OBJECT_KNOWN; i++)
		state = o->state[offset + i];
	if (state == OBJECT_GONE)
		object_put(w, "<optimized out>");
	else if (state == OBJECT_UNREADABLE)
		object_put(w, "<unreadable>");
	else if (state >= OBJECT_VECTOR)
		object_put(w, "<in xmm%d>", state - OBJECT_VECTOR);
	return state != OBJECT_KNOWN;
}

uint64_t object_number_at(const struct object *o, uint64_t offset, uint64_t size)
{
	uint64_t value = 0;

	memcpy(&value, o->bytes + offset, size < 8 ? size : 8);
	return value;
}

bool object_write_elsewhere(struct writer *w, const struct type *t, uint64_t address,
			    unsigned int depth)
{
	struct object *there = calloc(1, sizeof(*there));
	uint64_t size = t->size < OBJECT_BYTES_MAX ? t->size : OBJECT_BYTES_MAX;
	struct writer inner = { there, w->buf, w->n, w->used };

	if (!there)
		return false;
	there->s = w->o->s;
	there->address = address;
	bool is_read = !symbols_read_copied(there->s, address, there->bytes, size);
	if (!is_read)
		object_put(&inner, "<unreadable>");
	else
		object_write(&inner, t, 0, depth + 1);
	w->used = inner.used;
	free(there);
	return is_read;
}

static const char *captured_at(const struct object *o, uint64_t offset, size_t n)
{
	for (size_t i = 0; i < o->captures; i++)
		if (o->capture[i].offset == offset && strlen(o->capture[i].text) >= n)
			return o->capture[i].text;
	return NULL;
}

static bool quote(const char *text, size_t units, uint64_t unit_size, char *buf, size_t n)
{
	if (unit_size == 1)
		return value_quote(text, units, TEXT_SHOWN, buf, n);
	return wide_quote(text, units, unit_size, TEXT_SHOWN, buf, n);
}

/* offset: of the pointer to the text in the value. */
static void write_text(struct writer *w, const struct type *element, uint64_t offset, uint64_t data,
		       uint64_t length)
{
	char text[(TEXT_SHOWN + 2) * 4];
	/* A slice of bytes has no type of a character. */
	uint64_t unit = element->size == 2 || element->size == 4 ? element->size : 1;
	size_t n = length < TEXT_SHOWN + 2 ? (size_t)length : TEXT_SHOWN + 2;
	const char *captured = unit == 1 ? captured_at(w->o, offset, n) : NULL;

	if (w->used + 8 >= w->n)
		return;
	if (length > OBJECT_LENGTH_MAX / unit) {
		object_put(w, "<not valid: %" PRIu64 " bytes of text>", length);
		return;
	}
	if (captured)
		memcpy(text, captured, n);
	else if (n && symbols_read_copied(w->o->s, data, text, n * unit)) {
		object_put(w, "<%" PRIu64 " bytes, unreadable>", length * unit);
		return;
	}
	if (quote(text, n, unit, w->buf + w->used, w->n - w->used))
		w->used += strlen(w->buf + w->used);
	else
		object_put(w, "<%" PRIu64 " bytes>", length * unit);
}

static void write_sequence(struct writer *w, const struct type *element, uint64_t data,
			   uint64_t length, unsigned int depth)
{
	bool is_read = true;
	uint64_t i;

	object_put(w, "[");
	for (i = 0; i < length && i < OBJECT_SHOWN_MAX && element->size && is_read; i++) {
		object_put(w, "%s", i ? ", " : "");
		is_read = object_write_elsewhere(w, element, data + i * element->size, depth);
	}
	if (length > i)
		object_put(w, "%s%" PRIu64 " in all", i ? ", ... " : "", length);
	object_put(w, "]");
}

/* The number of elements. False: no program that works has such bytes, and that is written. */
static bool length_of(struct writer *w, const struct container *c, uint64_t data, uint64_t *length)
{
	if (c->is_end && *length < data) {
		object_put(w, "<not valid: it ends before it begins>");
		return false;
	}
	if (c->is_end)
		*length = c->element->size ? (*length - data) / c->element->size : 0;
	if (c->kind == CONTAINER_SEQUENCE && c->element->size &&
	    *length > OBJECT_LENGTH_MAX / c->element->size) {
		object_put(w, "<not valid: %" PRIu64 " elements>", *length);
		return false;
	}
	return true;
}

static void write_container(struct writer *w, const struct container *c, uint64_t offset,
			    unsigned int depth)
{
	if (c->kind == CONTAINER_ARRAY) {
		object_write(w, c->element, offset + c->data, depth + 1);
		return;
	}
	if (object_put_unknown(w, offset + c->data, 8))
		return;
	uint64_t data = object_number_at(w->o, offset + c->data, 8);
	if (c->kind == CONTAINER_POINTER) {
		object_put(w, data ? "0x%" PRIx64 : "NULL", data);
		return;
	}
	if (object_put_unknown(w, offset + c->length, 8))
		return;
	uint64_t length = object_number_at(w->o, offset + c->length, 8);
	if (!length_of(w, c, data, &length))
		return;
	if (c->kind == CONTAINER_TEXT)
		write_text(w, c->element, offset + c->data, data, length);
	else
		write_sequence(w, c->element, data, length, depth);
}

/* `__0` of a tuple, in Rust. */
static bool is_tuple_member(const char *name)
{
	return name && name[0] == '_' && name[1] == '_' && name[2] >= '0' && name[2] <= '9';
}

static bool is_library(const struct type *t)
{
	struct collection collection;
	struct container container;

	return container_of(t, &container) || collection_of(t, &collection);
}

static void write_each_member(struct writer *w, const struct type *t, uint64_t offset,
			      unsigned int depth, size_t *written);

static void write_member(struct writer *w, const struct type_member *m, bool is_tuple,
			 uint64_t offset, unsigned int depth, size_t *written)
{
	bool is_base = m->is_base && !m->vtable_offset && type_has_members(m->type);

	/* The members of a base are those of the whole; a string or map stays what it is. */
	if (is_base && depth < DEPTH_MAX * 2 && !is_library(m->type)) {
		write_each_member(w, m->type, offset + m->offset, depth + 1, written);
		return;
	}
	object_put(w, "%s", (*written)++ ? ", " : "");
	if (!is_tuple && m->name && !is_base)
		object_put(w, ".%s ", m->name);
	if (m->bit_size || m->vtable_offset)
		object_put(w, "...");
	else
		object_write(w, m->type, offset + m->offset, depth + 1);
}

static void write_each_member(struct writer *w, const struct type *t, uint64_t offset,
			      unsigned int depth, size_t *written)
{
	size_t n;
	const struct type_member *m = type_members(t, &n);
	bool is_tuple = n && is_tuple_member(m[0].name);

	for (size_t i = 0; i < n && w->used + 1 < w->n; i++)
		write_member(w, &m[i], is_tuple, offset, depth, written);
}

static void write_members(struct writer *w, const struct type *t, uint64_t offset,
			  unsigned int depth)
{
	size_t n;
	const struct type_member *m = type_members(t, &n);
	bool is_tuple = n && is_tuple_member(m[0].name);
	size_t written = 0;

	object_put(w, is_tuple ? "(" : "{");
	write_each_member(w, t, offset, depth, &written);
	object_put(w, is_tuple ? ")" : "}");
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

	if (v->discriminant && object_put_unknown(w, at, v->discriminant->size))
		return;
	const struct type_variant *variant = variant_of(
		v, v->discriminant ? object_number_at(w->o, at, v->discriminant->size) : 0);
	if (!variant) {
		object_put(w, "<no variant of %s>", t->name);
		return;
	}
	object_put(w, "%s", variant->name);
	type_members(variant->type, &n);
	if (n)
		write_members(w, variant->type, offset + variant->offset, depth + 1);
}

/* An array of char up to its NUL. False: it does not look like text. */
static bool write_characters(struct writer *w, const struct type *t, uint64_t offset)
{
	const struct type *element = type_target(t);
	const char *text = (const char *)w->o->bytes + offset;
	uint64_t size = t->size < TEXT_SHOWN + 1 ? t->size : TEXT_SHOWN + 1;

	if (element->kind != TYPE_CHARACTER || element->size != 1 || !size ||
	    strncmp(element->name, "char", 4) != 0 || offset + size > OBJECT_BYTES_MAX)
		return false;
	for (uint64_t i = 0; i < size; i++)
		if (w->o->state[offset + i] != OBJECT_KNOWN)
			return false;
	if (w->used + 8 >= w->n ||
	    !value_quote(text, strnlen(text, size), TEXT_SHOWN, w->buf + w->used, w->n - w->used))
		return false;
	w->used += strlen(w->buf + w->used);
	return true;
}

static void write_array(struct writer *w, const struct type *t, uint64_t offset, unsigned int depth)
{
	const struct type *element = type_target(t);

	if (write_characters(w, t, offset))
		return;
	object_put(w, "[");
	for (uint64_t i = 0; i < t->count && i < OBJECT_SHOWN_MAX; i++) {
		object_put(w, "%s", i ? ", " : "");
		object_write(w, element, offset + i * element->size, depth + 1);
	}
	object_put(w, "%s]", t->count > OBJECT_SHOWN_MAX ? ", ..." : "");
}

/*
 * The type in a Go interface: the table of its methods has a name,
 * `go.itab.*main.Square,main.Shape`.
 */
static void write_interface(struct writer *w, uint64_t table, uint64_t data)
{
	struct place place;

	if (!table) {
		object_put(w, "nil");
		return;
	}
	symbols_data_place(w->o->s, table, &place);
	const char *name = place.function && !place.offset ? strstr(place.function, "itab.") : NULL;
	if (name)
		object_put(w, "(%.*s)", (int)strcspn(name + 5, ","), name + 5);
	object_put(w, "0x%" PRIx64, data);
}

static bool is_interface(const struct type *t, const struct type_member **m)
{
	size_t n;

	*m = type_members(t, &n);
	return n == 2 && t->size == 16 && (*m)[0].name && (*m)[1].name &&
	       !strcmp((*m)[1].name, "data") &&
	       (!strcmp((*m)[0].name, "tab") || !strcmp((*m)[0].name, "_type"));
}

/* A struct of the program that has a base in the library, and members of its own. */
static bool is_derived(const struct type *t)
{
	size_t n;
	const struct type_member *m = type_members(t, &n);
	bool has_base = false;
	bool has_own = false;

	for (size_t i = 0; i < n; i++) {
		has_base = has_base || (m[i].is_base && is_library(m[i].type));
		has_own = has_own || !m[i].is_base;
	}
	return has_base && has_own;
}

static void write_struct(struct writer *w, const struct type *t, uint64_t offset,
			 unsigned int depth)
{
	const struct type_variants *variants = type_variants(t);
	struct collection collection;
	const struct type_member *m;
	struct container c;

	if (variants)
		write_variant(w, variants, t, offset, depth);
	else if (is_derived(t))
		write_members(w, t, offset, depth);
	else if (container_of(t, &c))
		write_container(w, &c, offset, depth);
	else if (collection_of(t, &collection))
		object_write_collection(w, &collection, t, offset, depth);
	else if (is_interface(t, &m) && !object_put_unknown(w, offset, t->size))
		write_interface(w, object_number_at(w->o, offset, 8),
				object_number_at(w->o, offset + 8, 8));
	else if (!is_interface(t, &m))
		write_members(w, t, offset, depth);
}

static void write_number(struct writer *w, const struct type *t, uint64_t offset)
{
	uint64_t words[2] = { object_number_at(w->o, offset, 8), 0 };

	if (t->size > 16) {
		object_put(w, "<%" PRIu64 " bytes>", t->size);
	} else if (t->size > 8) {
		words[1] = object_number_at(w->o, offset + 8, t->size - 8);
		value_wide_text(t, words, w->buf + w->used, w->n - w->used);
	} else {
		value_number_text(w->o->s, t, object_number_at(w->o, offset, t->size),
				  w->buf + w->used, w->n - w->used);
	}
	w->used += strlen(w->buf + w->used);
}

/* What the library's types have elsewhere is shown behind a pointer to one, as text is. */
static void write_target(struct writer *w, const struct type *t, uint64_t offset,
			 unsigned int depth)
{
	uint64_t address = object_number_at(w->o, offset, 8);

	if (!address || !object_shows_target(t))
		return;
	object_put(w, "%s", w->used ? " " : "");
	object_write_elsewhere(w, type_target(t), address, depth);
}

bool object_shows_target(const struct type *t)
{
	const struct type *target =
		t->size == 8 && (t->kind == TYPE_REFERENCE || t->kind == TYPE_POINTER) ?
			type_target(t) :
			NULL;

	return target && target->kind == TYPE_STRUCT && target->size && is_library(target);
}

void object_write(struct writer *w, const struct type *t, uint64_t offset, unsigned int depth)
{
	if (depth > DEPTH_MAX || w->used + 1 >= w->n) {
		object_put(w, "...");
	} else if (t->refusal) {
		object_put(w, "<not read: %s>", t->refusal);
	} else if (t->kind == TYPE_STRUCT) {
		write_struct(w, t, offset, depth);
	} else if (t->kind == TYPE_UNION && type_has_members(t) && t->size) {
		write_members(w, t, offset, depth);
	} else if (t->kind == TYPE_ARRAY && type_target(t)->size) {
		write_array(w, t, offset, depth);
	} else if (!t->size) {
		object_put(w, "()");
	} else if (!object_put_unknown(w, offset, t->size)) {
		write_number(w, t, offset);
		if (t->kind == TYPE_POINTER || t->kind == TYPE_REFERENCE)
			write_target(w, t, offset, depth);
	}
}

void object_text(struct object *o, const struct type *t, char *buf, size_t n)
{
	struct writer w = { .o = o, .buf = buf, .n = n };

	buf[0] = 0;
	object_write(&w, t, 0, 0);
}

void object_target_text(struct object *o, const struct type *t, char *buf, size_t n)
{
	struct writer w = { .o = o, .buf = buf, .n = n };

	buf[0] = 0;
	write_target(&w, t, 0, 0);
}
