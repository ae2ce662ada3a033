/* SPDX-License-Identifier: MIT */
/* value.c - values as text. */
#include "report/lang/value.h"

#include <ctype.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Above this an unsigned number is rather a pointer or a set of flags: hex reads better. */
#define DECIMAL_MAX (UINT64_C(1) << 40)
#define STRING_SHOWN 40

static uint64_t mask_of(uint32_t bits)
{
	return bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}

static int64_t sign_extend(uint64_t value, uint32_t bits)
{
	unsigned int shift = bits && bits < 64 ? 64 - bits : 0;

	return (int64_t)(value << shift) >> shift;
}

/* The name of an enum's value, `A|B` for flags; false: it has none. */
static bool enum_name(const struct type *t, uint64_t value, char *buf, size_t n)
{
	size_t count;
	const struct type_constant *c = type_constants(t, &count);
	uint64_t mask = mask_of((uint32_t)t->size * 8);
	uint64_t rest = value;
	size_t used = 0;

	for (size_t i = 0; i < count; i++) {
		if (((uint64_t)c[i].value & mask) != (value & mask))
			continue;
		snprintf(buf, n, "%s", c[i].name);
		return true;
	}
	/* Flags: every constant is one bit, or none. */
	for (size_t i = 0; i < count; i++)
		if (c[i].value & (c[i].value - 1))
			return false;
	for (size_t i = 0; i < count && used < n; i++) {
		if (!c[i].value || !(rest & (uint64_t)c[i].value))
			continue;
		rest &= ~(uint64_t)c[i].value;
		used += (size_t)snprintf(buf + used, n - used, "%s%s", used ? "|" : "", c[i].name);
	}
	if (used && used < n && rest)
		snprintf(buf + used, n - used, "|0x%" PRIx64, rest);
	return used != 0;
}

static void integer_text(bool is_signed, uint32_t bits, uint64_t value, char *buf, size_t n)
{
	if (is_signed)
		snprintf(buf, n, "%" PRId64, sign_extend(value, bits));
	else if (value < DECIMAL_MAX)
		snprintf(buf, n, "%" PRIu64, value);
	else
		snprintf(buf, n, "0x%" PRIx64, value);
}

/* Without a type: counters in decimal, small negative numbers too. */
static void bytes_text(uint64_t size, uint64_t value, char *buf, size_t n)
{
	int64_t sign = size == 4 ? (int32_t)value : (int64_t)value;
	bool is_negative = size >= 4 && sign < 0 && sign >= -4096;

	integer_text(is_negative, size == 4 ? 32 : 64, value, buf, n);
}

/* 5 of 16 bits are the exponent. */
static float half_number(uint64_t bits)
{
	int exponent = (int)(bits >> 10 & 31);
	float fraction = (float)(bits & 1023);
	float number = !exponent     ? ldexpf(fraction, -24) :
		       exponent < 31 ? ldexpf(fraction + 1024, exponent - 25) :
		       bits & 1023   ? NAN :
				       INFINITY;

	return bits & 0x8000 ? -number : number;
}

/* A float of 4 or 8 bytes as it is, one of 2 as the float that it is. */
static uint64_t float_bits(const struct type *t, uint64_t bits)
{
	uint32_t single;

	if (t->size != 2)
		return bits;
	if (t->form == TYPE_FORM_BFLOAT)
		return (bits & 0xffff) << 16;
	float number = half_number(bits);
	memcpy(&single, &number, sizeof(single));
	return single;
}

/* The shortest text that reads back as the same number. */
static void float_text(uint64_t size, uint64_t bits, char *buf, size_t n)
{
	float single;
	double number;

	memcpy(&single, &bits, sizeof(single));
	memcpy(&number, &bits, sizeof(number));
	for (int digits = size == 4 ? 6 : 15; digits <= 17; digits++) {
		snprintf(buf, n, "%.*g", digits, size == 4 ? (double)single : number);
		if (size == 4 ? strtof(buf, NULL) == single : strtod(buf, NULL) == number)
			return;
	}
}

static void wide_float_text(const uint64_t words[2], char *buf, size_t n)
{
	long double number = 0;

	memcpy(&number, words, sizeof(number) < 16 ? sizeof(number) : 16);
	for (int digits = LDBL_DIG; digits <= LDBL_DECIMAL_DIG; digits++) {
		snprintf(buf, n, "%.*Lg", digits, number);
		if (strtold(buf, NULL) == number)
			return;
	}
}

/* Why the bytes of a type are not read. False: they are. */
static bool value_refusal_text(const struct type *t, char *buf, size_t n)
{
	if (!t->refusal)
		return false;
	snprintf(buf, n, "<not read: %s>", t->refusal);
	return true;
}

void value_wide_text(const struct type *t, const uint64_t words[2], char *buf, size_t n)
{
	bool is_integer = t->kind == TYPE_INTEGER;
	bool is_negative = (int64_t)words[0] < 0;

	if (value_refusal_text(t, buf, n))
		return;
	/* The compiler's long double is that of the target: both are of this machine. */
	if (t->kind == TYPE_FLOAT &&
	    t->form == (LDBL_MANT_DIG == 64 ? TYPE_FORM_X87 : TYPE_FORM_BINARY128))
		wide_float_text(words, buf, n);
	else if (is_integer && t->is_signed && words[1] == (is_negative ? UINT64_MAX : 0))
		integer_text(true, 64, words[0], buf, n);
	else if (is_integer && !words[1])
		integer_text(false, 64, words[0], buf, n);
	else if (!words[1])
		snprintf(buf, n, "0x%" PRIx64, words[0]);
	else
		snprintf(buf, n, "0x%" PRIx64 "%016" PRIx64, words[1], words[0]);
}

bool value_quote(const char *text, size_t len, size_t shown, char *buf, size_t n)
{
	size_t used = 0;

	if (n < 8)
		return false;
	buf[used++] = '"';
	for (size_t i = 0; i < len && used + 6 < n; i++) {
		unsigned char c = (unsigned char)text[i];
		bool is_space = c == '\n' || c == '\t' || c == '\r';
		if (c < 0x80 && !isprint(c) && !is_space)
			return false;
		if (i == shown) {
			used += (size_t)snprintf(buf + used, n - used, "...");
			break;
		}
		if (c == '"' || c == '\\')
			buf[used++] = '\\';
		if (is_space)
			used += (size_t)snprintf(buf + used, n - used, "\\%c",
						 c == '\n' ? 'n' :
						 c == '\t' ? 't' :
							     'r');
		else
			buf[used++] = (char)c;
	}
	if (used + 2 > n)
		return false;
	buf[used++] = '"';
	buf[used] = 0;
	return true;
}

static void pointer_text(struct symbols *s, const struct type *t, uint64_t value, char *buf,
			 size_t n)
{
	const struct type *target = type_target(t);
	char text[STRING_SHOWN + 2];
	struct place place;

	if (!value) {
		snprintf(buf, n, "NULL");
		return;
	}
	size_t used = (size_t)snprintf(buf, n, "0x%" PRIx64, value);
	if (used + 8 >= n)
		return;
	if (target->kind == TYPE_CHARACTER) {
		buf[used] = ' ';
		symbols_read_string(s, value, text, sizeof(text));
		if (!text[0] ||
		    !value_quote(text, strlen(text), STRING_SHOWN, buf + used + 1, n - used - 1))
			buf[used] = 0;
		return;
	}
	symbols_data_place(s, value, &place);
	if (place.function && place.offset)
		snprintf(buf + used, n - used, " <%s+0x%" PRIx64 ">", place.function, place.offset);
	else if (place.function)
		snprintf(buf + used, n - used, " <%s>", place.function);
}

void value_string_text(uint64_t pointer, const char *text, char *buf, size_t n)
{
	size_t used = (size_t)snprintf(buf, n, "0x%" PRIx64 " ", pointer);

	if (used + 8 < n && !value_quote(text, strlen(text), STRING_SHOWN, buf + used, n - used))
		buf[used - 1] = 0;
}

static void character_text(const struct type *t, uint64_t value, char *buf, size_t n)
{
	integer_text(t->is_signed, 8, value, buf, n);
	size_t used = strlen(buf);
	/* uint8_t is a character too, but one that counts. */
	if (!strncmp(t->name, "char", 4) && isprint((int)(value & 0xff)))
		snprintf(buf + used, n - used, " '%c'", (int)(value & 0xff));
}

void value_number_text(struct symbols *s, const struct type *t, uint64_t value, char *buf, size_t n)
{
	if (t->refusal) {
		value_refusal_text(t, buf, n);
		return;
	}
	switch (t->kind) {
	case TYPE_BOOL:
		if (value < 2)
			snprintf(buf, n, "%s", value ? "true" : "false");
		else
			snprintf(buf, n, "true (%" PRIu64 ")", value);
		return;
	case TYPE_ENUM:
		if (!enum_name(t, value, buf, n))
			integer_text(t->is_signed, (uint32_t)t->size * 8, value, buf, n);
		return;
	case TYPE_CHARACTER:
		character_text(t, value, buf, n);
		return;
	case TYPE_FLOAT:
		float_text(t->size == 2 ? 4 : t->size, float_bits(t, value), buf, n);
		return;
	case TYPE_POINTER:
	case TYPE_REFERENCE:
		pointer_text(s, t, value, buf, n);
		return;
	case TYPE_INTEGER:
		integer_text(t->is_signed, (uint32_t)t->size * 8, value, buf, n);
		return;
	default:
		bytes_text(t->size, value, buf, n);
	}
}

/* The bits of a leaf, sign-extended where its type has a sign. */
static uint64_t leaf_number(const struct value_leaf *leaf, const struct value_part *p,
			    uint64_t word)
{
	uint64_t value = word >> (leaf->offset - p->offset) * 8;

	if (leaf->bit_size) {
		value = (value >> leaf->bit_offset) & mask_of(leaf->bit_size);
		if (leaf->type && leaf->type->is_signed)
			value = (uint64_t)sign_extend(value, leaf->bit_size);
		return value;
	}
	return value & mask_of((uint32_t)leaf->len * 8);
}

static void leaf_text(struct symbols *s, const struct value_leaf *leaf, const struct value_part *p,
		      uint64_t word, char *buf, size_t n)
{
	uint64_t value = leaf_number(leaf, p, word);

	if (!leaf->type) {
		snprintf(buf, n, "0x%0*" PRIx64, (int)leaf->len * 2, value);
	} else if (value_refusal_text(leaf->type, buf, n)) {
		return;
	} else if (leaf->type->kind == TYPE_ARRAY) {
		char text[9] = "";
		memcpy(text, &value, leaf->len < 8 ? leaf->len : 8);
		if (!value_quote(text, strnlen(text, leaf->len), sizeof(text), buf, n))
			snprintf(buf, n, "0x%0*" PRIx64, (int)leaf->len * 2, value);
	} else {
		value_number_text(s, leaf->type, value, buf, n);
	}
}

struct change {
	struct symbols *s;
	const struct value_part *p;
	bool is_read;
	bool only_changed; /* of several leaves, leave out those that stayed */
	char *buf;
	size_t n;
	size_t used;
	size_t leaves;
};

static int count_visit(const struct value_leaf *leaf, void *arg)
{
	struct change *c = arg;

	c->leaves++;
	if (c->p->old_known && c->p->new_known &&
	    leaf_number(leaf, c->p, c->p->old_value) != leaf_number(leaf, c->p, c->p->new_value))
		c->only_changed = true;
	return 0;
}

static void change_put(struct change *c, const struct value_leaf *leaf)
{
	const struct value_part *p = c->p;
	char old[160] = "?";
	char new[160] = "?";
	bool same = p->old_known && p->new_known &&
		    leaf_number(leaf, p, p->old_value) == leaf_number(leaf, p, p->new_value);

	if (p->old_known)
		leaf_text(c->s, leaf, p, p->old_value, old, sizeof(old));
	if (p->new_known)
		leaf_text(c->s, leaf, p, p->new_value, new, sizeof(new));
	/* Equal values under rw are most often a read. */
	bool one = same && (c->is_read || c->leaves > 1);
	c->used += (size_t)snprintf(c->buf + c->used, c->n - c->used, "%s%s%s", one ? "" : old,
				    one ? "" : " -> ", new);
}

static int change_visit(const struct value_leaf *leaf, void *arg)
{
	struct change *c = arg;
	const struct value_part *p = c->p;

	if (c->only_changed && c->leaves > 1 &&
	    leaf_number(leaf, p, p->old_value) == leaf_number(leaf, p, p->new_value))
		return 0;
	if (c->n - c->used < 8)
		return 1;
	if (c->leaves > 1 || (leaf->path[0] && c->leaves == 1))
		c->used += (size_t)snprintf(c->buf + c->used, c->n - c->used, "%s%s ",
					    c->used ? ", " : "", leaf->path);
	if (c->used < c->n)
		change_put(c, leaf);
	return c->used >= c->n;
}

/* A bit-field is one leaf, no matter in which bytes it lies. */
static struct value_leaf field_leaf(const struct value_view *v, const struct value_part *p)
{
	return (struct value_leaf){ .path = "",
				    .type = v->type,
				    .offset = p->offset,
				    .len = p->len,
				    .bit_offset = v->bit_offset,
				    .bit_size = v->bit_size };
}

static bool is_whole_field(const struct value_view *v, const struct value_part *p)
{
	return p->offset == 0 && v->bit_offset + v->bit_size <= p->len * 8;
}

void value_change(struct symbols *s, const struct value_view *v, const struct value_part *p,
		  bool is_read, char *buf, size_t n)
{
	struct change c = { .s = s, .p = p, .is_read = is_read, .buf = buf, .n = n };

	buf[0] = 0;
	if (v->bit_size) {
		struct value_leaf leaf = field_leaf(v, p);
		if (!is_whole_field(v, p))
			leaf = (struct value_leaf){ .path = "",
						    .offset = p->offset,
						    .len = p->len };
		change_put(&c, &leaf);
		return;
	}
	value_leaves(v->type, p->offset, p->len, count_visit, &c);
	if (!c.leaves) {
		struct value_leaf leaf = { .path = "", .offset = p->offset, .len = p->len };
		change_put(&c, &leaf);
		return;
	}
	value_leaves(v->type, p->offset, p->len, change_visit, &c);
}

static json_t *pointer_json(struct symbols *s, const struct type *t, uint64_t value)
{
	char text[160];
	struct place place;

	if (!value)
		return json_null();
	json_t *j = json_object();
	snprintf(text, sizeof(text), "0x%" PRIx64, value);
	json_object_set_new(j, "pointer", json_string(text));
	if (type_target(t)->kind == TYPE_CHARACTER) {
		symbols_read_string(s, value, text, sizeof(text));
		json_t *string = text[0] ? json_string(text) : NULL;
		if (string)
			json_object_set_new(j, "string", string);
		return j;
	}
	symbols_data_place(s, value, &place);
	if (place.function) {
		snprintf(text, sizeof(text), place.offset ? "%.120s+0x%" PRIx64 : "%.120s",
			 place.function, place.offset);
		json_object_set_new(j, "symbol", json_string(text));
	}
	return j;
}

static json_t *float_json(uint64_t size, uint64_t bits)
{
	char text[40];
	float single;
	double number;

	memcpy(&single, &bits, sizeof(single));
	memcpy(&number, &bits, sizeof(number));
	json_t *j = json_real(size == 4 ? (double)single : number);
	if (j)
		return j;
	float_text(size, bits, text, sizeof(text)); /* inf, nan: JSON has no number for them */
	return json_string(text);
}

json_t *value_number_json(struct symbols *s, const struct type *t, uint64_t value)
{
	char text[160];

	if (t->refusal)
		return json_null();
	if (t->kind == TYPE_BOOL && value < 2)
		return json_boolean(value);
	if (t->kind == TYPE_ENUM && enum_name(t, value, text, sizeof(text)))
		return json_string(text);
	if (t->kind == TYPE_FLOAT && (t->size == 2 || t->size == 4 || t->size == 8))
		return float_json(t->size == 2 ? 4 : t->size, float_bits(t, value));
	if (t->kind == TYPE_POINTER || t->kind == TYPE_REFERENCE)
		return pointer_json(s, t, value);
	if (t->is_signed)
		return json_integer(sign_extend(value, (uint32_t)t->size * 8));
	if (value <= INT64_MAX)
		return json_integer((json_int_t)value);
	snprintf(text, sizeof(text), "0x%" PRIx64, value);
	return json_string(text);
}

static json_t *leaf_json(struct symbols *s, const struct value_leaf *leaf,
			 const struct value_part *p, uint64_t word)
{
	uint64_t value = leaf_number(leaf, p, word);
	char text[24];

	if (leaf->type && leaf->type->kind == TYPE_ARRAY) {
		json_t *j = json_stringn((const char *)&value,
					 strnlen((const char *)&value, leaf->len));
		if (j)
			return j;
	} else if (leaf->type) {
		return value_number_json(s, leaf->type, value);
	}
	snprintf(text, sizeof(text), "0x%0*" PRIx64, (int)leaf->len * 2, value);
	return json_string(text);
}

struct json_walk {
	struct symbols *s;
	const struct value_part *p;
	uint64_t word;
	json_t *members;
	json_t *single; /* the value, when it has no path */
};

static int json_visit(const struct value_leaf *leaf, void *arg)
{
	struct json_walk *w = arg;
	json_t *j = leaf_json(w->s, leaf, w->p, w->word);

	if (leaf->path[0])
		json_object_set_new(w->members, leaf->path + (leaf->path[0] == '.'), j);
	else
		w->single = j;
	return 0;
}

json_t *value_json(struct symbols *s, const struct value_view *v, const struct value_part *p,
		   bool is_new)
{
	struct json_walk w = { .s = s, .p = p, .word = is_new ? p->new_value : p->old_value };

	if (is_new ? !p->new_known : !p->old_known)
		return json_null();
	if (v->bit_size && is_whole_field(v, p)) {
		struct value_leaf leaf = field_leaf(v, p);
		return leaf_json(s, &leaf, p, w.word);
	}
	w.members = json_object();
	if (!v->bit_size)
		value_leaves(v->type, p->offset, p->len, json_visit, &w);
	if (!w.single && json_object_size(w.members))
		return w.members;
	json_decref(w.members);
	if (w.single)
		return w.single;
	struct value_leaf leaf = { .offset = p->offset, .len = p->len };
	return leaf_json(s, &leaf, p, w.word);
}
