/* SPDX-License-Identifier: MIT */
/*
 * break_args.c - arguments and results in a hit, by their types.
 *
 * Values in registers, and text that the BPF program copied, are those of the hit. Values on the
 * stack come from the record if it has the stack. Otherwise they are read now, and marked as such.
 */
#include "cli/break/break_args.h"

#include "cli/break/break_redact.h"
#include "cli/observe/hit_memory.h"
#include "report/lang/collection.h"
#include "report/lang/container.h"
#include "report/lang/object.h"
#include "report/lang/value.h"
#include "report/run/run.h"

#include <inttypes.h>
#include <string.h>

static bool is_text(const struct type *t)
{
	return (t->kind == TYPE_POINTER || t->kind == TYPE_REFERENCE) &&
	       type_target(t)->kind == TYPE_CHARACTER;
}

static uint64_t text_bit(const struct signature_value *v)
{
	struct container c;
	uint64_t begins;

	if (v->where == SIGNATURE_PIECES && container_of(v->type, &c) && c.kind == CONTAINER_TEXT) {
		int reg = signature_register_of(v, c.data, &begins);
		return reg >= 0 ? UINT64_C(1) << reg : 0;
	}
	return v->where == SIGNATURE_REGISTERS && v->regs == 1 && is_text(v->type) ?
		       UINT64_C(1) << v->reg[0] :
		       0;
}

uint32_t break_texts(const struct signature *signature, bool of_result)
{
	uint64_t bits = of_result ? text_bit(&signature->result) : 0;

	for (size_t i = 0; i < signature->more_count && of_result; i++)
		bits |= text_bit(&signature->more[i]);
	for (size_t i = 0; i < signature->count && !of_result; i++)
		bits |= text_bit(&signature->parameter[i]);
	return (uint32_t)bits;
}

uint32_t break_vectors(const struct signature *signature)
{
	uint32_t most = 0;

	for (size_t i = 0; i < signature->count; i++) {
		uint32_t n = signature_vectors(&signature->parameter[i]);
		most = n > most ? n : most;
	}
	return most;
}

uint32_t break_value_texts(const struct signature_value *value)
{
	return (uint32_t)text_bit(value);
}

static const char *in_vector(unsigned int number)
{
	static const char *const names[] = {
		"<in xmm0>",  "<in xmm1>",  "<in xmm2>",  "<in xmm3>",	"<in xmm4>",  "<in xmm5>",
		"<in xmm6>",  "<in xmm7>",  "<in xmm8>",  "<in xmm9>",	"<in xmm10>", "<in xmm11>",
		"<in xmm12>", "<in xmm13>", "<in xmm14>", "<in xmm15>",
	};

	return number < sizeof(names) / sizeof(names[0]) ? names[number] : "<in st0>";
}

/* The bytes of a value that is in vector registers alone. */
static bool read_vectors(const struct trapline_hit *hit, const struct signature_value *value,
			 uint64_t bytes[2])
{
	uint64_t words[2];
	unsigned int number;
	uint64_t at;

	for (unsigned int i = 0; i < 2 && i * 8u < value->type->size; i++) {
		if (!signature_vector_of(value, i * 8u, &number, &at) ||
		    trapline_hit_vector(hit, number, words))
			return false;
		bytes[i] = words[at / 8];
	}
	return true;
}

/* Where a value in memory is. */
static bool memory_address(const struct break_values *v, const struct signature_value *value,
			   uint64_t *out)
{
	uint64_t base = v->hit->sp;

	if (value->where == SIGNATURE_FRAME && trapline_hit_register(v->hit, value->reg[0], &base))
		return false;
	*out = base + value->stack;
	return true;
}

/*
 * The bytes of a value, at most 16. False: the hit does not have them, and why states the reason.
 */
static bool read_bytes(struct break_values *v, const struct signature_value *value,
		       uint64_t bytes[2], const char **why)
{
	uint64_t at;
	size_t size = value->type->size && value->type->size <= 16 ? value->type->size : 8;

	bytes[0] = bytes[1] = 0;
	switch (value->where) {
	case SIGNATURE_REGISTERS:
	case SIGNATURE_MEMORY:
		for (unsigned int i = 0; i < value->regs; i++)
			if (trapline_hit_register(v->hit, value->reg[i], &bytes[i]))
				return *why = "<not recorded>", false;
		return true;
	case SIGNATURE_CONSTANT:
		bytes[0] = value->constant;
		return true;
	case SIGNATURE_STACK:
	case SIGNATURE_FRAME:
		if (!memory_address(v, value, &at))
			return *why = "<not recorded>", false;
		if (!hit_memory_read(v->s, v->hit, at, bytes, size, &v->later))
			return true;
		return *why = "<unreadable>", false;
	case SIGNATURE_VECTOR:
		return *why = in_vector(value->vector), read_vectors(v->hit, value, bytes);
	case SIGNATURE_UNKNOWN:
		return *why = "<not known>", false;
	default:
		return *why = "<optimized out>", false;
	}
}

static uint64_t cut(uint64_t value, uint64_t size)
{
	return size && size < 8 ? value & ((UINT64_C(1) << size * 8) - 1) : value;
}

static int any_leaf(const struct value_leaf *leaf, void *arg)
{
	(void)leaf;
	(void)arg;
	return 1;
}

/* A struct in one or two registers: `{.x 1, .y 2}`. */
static void aggregate_text(struct break_values *v, const struct type *t, const uint64_t bytes[2],
			   char *buf, size_t n)
{
	struct value_view view = { .type = t };

	size_t used = (size_t)snprintf(buf, n, "{");
	for (uint64_t at = 0; at < t->size && used + 16 < n; at += 8) {
		uint64_t len = t->size - at < 8 ? t->size - at : 8;
		if (at && !value_leaves(t, at, len, any_leaf, NULL))
			continue; /* padding */
		struct value_part part = {
			.offset = at, .len = (uint32_t)len, .old_known = true, .new_known = true
		};
		part.old_value = part.new_value = cut(bytes[at / 8], len);
		used += (size_t)snprintf(buf + used, n - used, "%s", at ? ", " : "");
		value_change(v->s, &view, &part, true, buf + used, n - used - 1);
		used += strlen(buf + used);
	}
	snprintf(buf + used, n - used, "}");
}

static void object_memory(struct object *o, uint64_t offset, uint64_t address, uint64_t size)
{
	o->address = offset ? o->address : address;
	size = size < OBJECT_BYTES_MAX - offset ? size : OBJECT_BYTES_MAX - offset;
	if (symbols_read_copied(o->s, address, o->bytes + offset, size))
		memset(o->state + offset, OBJECT_UNREADABLE, size);
	else
		memset(o->state + offset, OBJECT_KNOWN, size);
}

static void object_vector(struct break_values *v, struct object *o, const struct signature_piece *p)
{
	uint64_t words[2];

	memset(o->state + p->offset, OBJECT_VECTOR + p->reg, p->size);
	if (p->size > sizeof(words) || trapline_hit_vector(v->hit, p->reg, words))
		return;
	memset(o->state + p->offset, OBJECT_KNOWN, p->size);
	memcpy(o->bytes + p->offset, words, p->size);
}

static void object_piece(struct break_values *v, struct object *o, const struct signature_piece *p)
{
	uint64_t word = p->value;
	uint8_t state = OBJECT_KNOWN;
	const char *text;

	if (p->offset + (size_t)p->size > OBJECT_BYTES_MAX)
		return;
	if (p->kind == SIGNATURE_PIECE_STACK) {
		object_memory(o, p->offset, v->hit->sp + p->value, p->size);
		return;
	}
	if (p->kind == SIGNATURE_PIECE_VECTOR) {
		object_vector(v, o, p);
		return;
	}
	if (p->kind == SIGNATURE_PIECE_GONE ||
	    (p->kind == SIGNATURE_PIECE_REGISTER && trapline_hit_register(v->hit, p->reg, &word)))
		state = OBJECT_GONE;
	else if (p->kind == SIGNATURE_PIECE_REGISTER && o->captures < OBJECT_CAPTURES_MAX &&
		 !trapline_hit_text(v->hit, p->reg, &text))
		o->capture[o->captures++] = (struct object_capture){ p->offset, text };
	memset(o->state + p->offset, state, p->size);
	memcpy(o->bytes + p->offset, &word, p->size < 8 ? p->size : 8);
}

static bool object_registers(struct break_values *v, struct object *o,
			     const struct signature_value *value)
{
	const struct type *t = value->type;
	const char *why;
	uint64_t bytes[2];

	/* A function of Go has no size of its own. */
	if (!t->size || t->size > 16 || !read_bytes(v, value, bytes, &why))
		return false;
	memcpy(o->bytes, bytes, sizeof(bytes));
	return true;
}

/* The bytes of a value. False: it is in no location that is known. */
static bool read_object(struct break_values *v, struct object *o,
			const struct signature_value *value)
{
	uint64_t address;

	*o = (struct object){ .s = v->s };
	switch (value->where) {
	case SIGNATURE_PIECES:
		memset(o->state, OBJECT_GONE, sizeof(o->state));
		for (size_t i = 0; i < value->piece_count; i++)
			object_piece(v, o, &value->piece[i]);
		break;
	case SIGNATURE_MEMORY:
		if (!value->regs)
			address = v->hidden;
		else if (trapline_hit_register(v->hit, value->reg[0], &address))
			return false;
		if (!address)
			return false;
		object_memory(o, 0, address, value->type->size);
		break;
	case SIGNATURE_STACK:
	case SIGNATURE_FRAME:
		if (!memory_address(v, value, &address))
			return false;
		object_memory(o, 0, address, value->type->size);
		break;
	case SIGNATURE_REGISTERS:
	case SIGNATURE_VECTOR:
		if (!object_registers(v, o, value))
			return false;
		break;
	default:
		return false;
	}
	return true;
}

/* With all that it contains. */
static bool whole_text(struct break_values *v, const struct signature_value *value, char *buf,
		       size_t n)
{
	struct object o;

	if (!read_object(v, &o, value))
		return false;
	object_text(&o, value->type, buf, n);
	return true;
}

static const char *captured_text(struct break_values *v, const struct signature_value *value)
{
	const char *text;

	if (value->where != SIGNATURE_REGISTERS || !text_bit(value) ||
	    trapline_hit_text(v->hit, value->reg[0], &text))
		return NULL;
	return text;
}

/* What is shown with all that it contains: structs in memory, types of a library. */
static bool is_object(const struct signature_value *value)
{
	const struct type *t = value->type;
	struct collection collection;
	struct container container;

	if (object_shows_target(t) || (t->kind == TYPE_STRUCT && t->size > 16) ||
	    (t->kind == TYPE_ARRAY && value->where == SIGNATURE_VECTOR) ||
	    (type_has_members(t) && value->where == SIGNATURE_MEMORY))
		return true;
	return t->kind == TYPE_STRUCT &&
	       (container_of(t, &container) || collection_of(t, &collection));
}

static void value_text(struct break_values *v, const struct signature_value *value, char *buf,
		       size_t n)
{
	const struct type *t = value->type;
	const char *text = captured_text(v, value);
	const char *why;
	uint64_t bytes[2];
	uint64_t at = 0;

	if ((v->is_whole || value->where == SIGNATURE_PIECES || is_object(value)) &&
	    whole_text(v, value, buf, n))
		return;
	if (!read_bytes(v, value, bytes, &why)) {
		snprintf(buf, n, "%s", why);
	} else if (text) {
		value_string_text(bytes[0], text, buf, n);
	} else if (value->where == SIGNATURE_MEMORY) {
		snprintf(buf, n, "{...} at 0x%" PRIx64, bytes[0]);
	} else if (type_has_members(t) && t->size > 16) {
		memory_address(v, value, &at);
		snprintf(buf, n, "{...} at 0x%" PRIx64, at);
	} else if (type_has_members(t)) {
		aggregate_text(v, t, bytes, buf, n);
	} else if (t->size > 8) {
		value_wide_text(t, bytes, buf, n);
	} else {
		value_number_text(v->s, t, cut(bytes[0], t->size), buf, n);
	}
}

void break_value_text(struct break_values *v, const struct signature *signature,
		      const struct signature_value *value, char *buf, size_t n)
{
	v->is_whole = signature->is_whole;
	value_text(v, value, buf, n);
}

static json_t *value_json_of(struct break_values *v, const struct signature_value *value)
{
	const struct type *t = value->type;
	const char *text = captured_text(v, value);
	struct object o;
	char buf[400];
	const char *why;
	uint64_t bytes[2];

	bool is_wide = t->size > 8 && !type_has_members(t);
	bool is_text_only = value->where == SIGNATURE_PIECES ||
			    ((v->is_whole || is_object(value)) && type_has_members(t));
	if (!is_text_only && !read_bytes(v, value, bytes, &why))
		return json_null();
	if (is_text_only || type_has_members(t) || value->where == SIGNATURE_MEMORY || is_wide) {
		value_text(v, value, buf, sizeof(buf));
		json_t *number = is_wide && t->kind == TYPE_FLOAT && strncmp(buf, "0x", 2) != 0 ?
					 json_real(strtod(buf, NULL)) :
				 is_wide && t->kind == TYPE_INTEGER && strncmp(buf, "0x", 2) != 0 &&
						 buf[0] != '<' ?
					 json_integer(strtoll(buf, NULL, 10)) :
					 NULL;
		if (number)
			return number;
		return buf[0] == '<' ? json_null() : run_json_text(buf);
	}
	json_t *j = value_number_json(v->s, t, cut(bytes[0], t->size));
	if (object_shows_target(t) && json_is_object(j) && read_object(v, &o, value)) {
		object_target_text(&o, t, buf, sizeof(buf));
		if (*buf)
			json_object_set_new(j, "value", run_json_text(buf));
	}
	if (text && json_is_object(j))
		json_object_set_new(j, "string", run_json_text(text));
	return j;
}

static bool is_redacted(const struct break_values *v, const struct signature *signature,
			size_t index)
{
	return v->redact && break_redacts_argument(v->redact, signature, index);
}

/* Without types: the registers that the calling convention uses for arguments. */
static void registers_text(struct break_values *v, char *buf, size_t n)
{
	size_t used = 0;
	uint64_t word;

	for (unsigned int i = 0; i < SIGNATURE_REGISTER_ARGUMENTS && used < n; i++)
		if (is_redacted(v, NULL, i))
			used += (size_t)snprintf(buf + used, n - used, "%s" BREAK_REDACTED,
						 i ? ", " : "");
		else if (!trapline_hit_register(
				 v->hit, (unsigned int)signature_argument_register(i), &word))
			used += (size_t)snprintf(buf + used, n - used, "%s0x%" PRIx64,
						 i ? ", " : "", word);
}

/* Go uses other registers, and without its debug information it is not known for what. */
static bool is_c(const struct break_values *v)
{
	return !symbols_is_go(v->s, v->hit->ip);
}

static void parameters_text(struct break_values *v, const struct signature *signature, char *buf,
			    size_t n)
{
	size_t used = 0;

	v->is_whole = signature->is_whole;
	for (size_t i = 0; i < signature->count && used + 8 < n; i++) {
		const struct signature_value *p = &signature->parameter[i];
		used += (size_t)snprintf(buf + used, n - used, "%s%.60s%s", i ? ", " : "",
					 p->name ? p->name : "", p->name ? "=" : "");
		if (used < n && is_redacted(v, signature, i))
			snprintf(buf + used, n - used, BREAK_REDACTED);
		else if (used < n)
			value_text(v, p, buf + used, n - used);
		used += strlen(buf + used);
	}
	if (signature->is_variadic && used + 8 < n)
		snprintf(buf + used, n - used, "%s...", used ? ", " : "");
}

void break_args_text(struct break_values *v, const struct signature *signature, char *buf, size_t n)
{
	struct symbols_copies copies;

	buf[0] = 0;
	hit_memory_begin(&copies, v->s, v->hit);
	if (signature)
		parameters_text(v, signature, buf, n);
	else if (is_c(v))
		registers_text(v, buf, n);
	else
		snprintf(buf, n, "<not known>");
	v->later = hit_memory_end(&copies, v->s) || v->later;
}

json_t *break_args_json(struct break_values *v, const struct signature *signature)
{
	struct symbols_copies copies;
	json_t *j = json_object();
	char name[32];
	uint64_t word;

	hit_memory_begin(&copies, v->s, v->hit);
	v->is_whole = signature && signature->is_whole;
	for (unsigned int i = 0; !signature && is_c(v) && i < SIGNATURE_REGISTER_ARGUMENTS; i++) {
		snprintf(name, sizeof(name), "arg%u", i);
		if (is_redacted(v, NULL, i))
			json_object_set_new(j, name, json_string(BREAK_REDACTED));
		else if (!trapline_hit_register(
				 v->hit, (unsigned int)signature_argument_register(i), &word))
			json_object_set_new(j, name, run_json_hex(word));
	}
	for (size_t i = 0; signature && i < signature->count; i++) {
		const struct signature_value *p = &signature->parameter[i];
		snprintf(name, sizeof(name), "arg%zu", i);
		json_object_set_new(j, p->name ? p->name : name,
				    is_redacted(v, signature, i) ? json_string(BREAK_REDACTED) :
								   value_json_of(v, p));
	}
	v->later = hit_memory_end(&copies, v->s) || v->later;
	return j;
}

/* Go's functions have several results. */
static void results_text(struct break_values *v, const struct signature *signature, char *buf,
			 size_t n)
{
	size_t used = (size_t)snprintf(buf, n, "(");

	for (size_t i = 0; i <= signature->more_count && used + 8 < n; i++) {
		used += (size_t)snprintf(buf + used, n - used, "%s", i ? ", " : "");
		value_text(v, i ? &signature->more[i - 1] : &signature->result, buf + used,
			   n - used - 2);
		used += strlen(buf + used);
	}
	snprintf(buf + used, n - used, ")");
}

void break_result_text(struct break_values *v, const struct signature *signature, char *buf,
		       size_t n)
{
	struct symbols_copies copies;
	uint64_t word;

	buf[0] = 0;
	hit_memory_begin(&copies, v->s, v->hit);
	v->is_whole = signature && signature->is_whole;
	if (signature && signature->more_count)
		results_text(v, signature, buf, n);
	else if (signature && signature->result.type->kind != TYPE_VOID)
		value_text(v, &signature->result, buf, n);
	else if (!signature && is_c(v) && !trapline_hit_register(v->hit, 0, &word))
		snprintf(buf, n, "0x%" PRIx64, word);
	else if (!signature && !is_c(v))
		snprintf(buf, n, "<not known>");
	v->later = hit_memory_end(&copies, v->s) || v->later;
}

static json_t *result_json(struct break_values *v, const struct signature *signature)
{
	uint64_t word;

	v->is_whole = signature && signature->is_whole;
	if (!signature)
		return !is_c(v) || trapline_hit_register(v->hit, 0, &word) ? json_null() :
									     run_json_hex(word);
	if (!signature->more_count)
		return signature->result.type->kind == TYPE_VOID ?
			       json_null() :
			       value_json_of(v, &signature->result);
	json_t *j = json_array();
	for (size_t i = 0; i <= signature->more_count; i++)
		json_array_append_new(j, value_json_of(v, i ? &signature->more[i - 1] :
							      &signature->result));
	return j;
}

json_t *break_result_json(struct break_values *v, const struct signature *signature)
{
	struct symbols_copies copies;

	hit_memory_begin(&copies, v->s, v->hit);
	json_t *j = result_json(v, signature);
	v->later = hit_memory_end(&copies, v->s) || v->later;
	return j;
}
