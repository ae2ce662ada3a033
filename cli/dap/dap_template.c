/* SPDX-License-Identifier: MIT */
/*
 * dap_template.c - see dap_template.h.
 *
 * Values in registers, and text that the kernel copied, are those of the hit. What pointers lead to, and
 * globals, are read a moment later, and the line says so.
 */
#include "cli/dap/dap_template.h"

#include "cli/break/break_args.h"
#include "report/lang/object.h"
#include "report/lang/value.h"
#include "report/run/run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARTS_MAX 64
#define NAME_MAX_BYTES 400

enum part_kind {
	PART_TEXT,
	PART_THREAD,
	PART_TID,
	PART_CALLER,
	PART_ARGUMENT, /* by the calling convention */
	PART_NAME,
};

struct part {
	enum part_kind kind;
	unsigned int number; /* of the argument */
	char *text;
};

struct dap_template {
	struct part part[PARTS_MAX];
	size_t count;
};

/* Of PART_NAME: a whole parameter, or a path from one or from a global. */
struct bound_part {
	const struct signature_value *parameter;
	struct expression_place place;
};

struct dap_bound {
	const struct signature *signature;
	struct bound_part part[PARTS_MAX];
	uint32_t texts;
};

static int part_add(struct dap_template *t, enum part_kind kind, const char *text, size_t length)
{
	if (t->count == PARTS_MAX)
		return -E2BIG;
	char *copy = strndup(text, length);
	if (!copy)
		return -ENOMEM;
	t->part[t->count++] = (struct part){ .kind = kind, .text = copy };
	return 0;
}

static void name_kind(struct part *p)
{
	const char *text = p->text;

	if (!strcmp(text, "thread"))
		p->kind = PART_THREAD;
	else if (!strcmp(text, "tid"))
		p->kind = PART_TID;
	else if (!strcmp(text, "caller"))
		p->kind = PART_CALLER;
	else if (!strncmp(text, "arg", 3) && text[3] >= '0' && text[3] <= '5' && !text[4])
		p->kind = PART_ARGUMENT;
	p->number = p->kind == PART_ARGUMENT ? (unsigned int)(text[3] - '0') : 0;
}

/* A name up to its closing brace, with blanks around it. */
static int name_add(struct dap_template *t, const char *from, const char *end)
{
	while (from < end && *from == ' ')
		from++;
	while (end > from && end[-1] == ' ')
		end--;
	if (from == end || end - from > NAME_MAX_BYTES)
		return -EINVAL;
	int err = part_add(t, PART_NAME, from, (size_t)(end - from));
	if (!err)
		name_kind(&t->part[t->count - 1]);
	return err;
}

/* Plain text: `\{`, `\}` and `\\` lose the backslash. */
static int text_add(struct dap_template *t, const char *from, const char *end)
{
	size_t used = 0;

	if (from == end)
		return 0;
	int err = part_add(t, PART_TEXT, from, (size_t)(end - from));
	if (err)
		return err;
	char *text = t->part[t->count - 1].text;
	for (const char *p = text; *p; p++) {
		if (*p == '\\' && p[1] && strchr("{}\\", p[1]))
			p++;
		text[used++] = *p;
	}
	text[used] = 0;
	return 0;
}

static int parts_of(struct dap_template *t, const char *text)
{
	const char *from = text;
	int err = 0;

	for (const char *p = text; *p && !err; p++) {
		if (*p == '\\' && p[1]) {
			p++;
			continue;
		}
		if (*p != '{')
			continue;
		const char *end = strchr(p, '}');
		if (!end)
			return -EINVAL;
		err = text_add(t, from, p);
		if (!err)
			err = name_add(t, p + 1, end);
		p = end;
		from = end + 1;
	}
	return err ? err : text_add(t, from, from + strlen(from));
}

int dap_template_parse(const char *text, struct dap_template **out, char *why, size_t n)
{
	struct dap_template *t = calloc(1, sizeof(*t));
	int err = t ? parts_of(t, text) : -ENOMEM;

	if (!err) {
		*out = t;
		return 0;
	}
	dap_template_free(t);
	if (err == -E2BIG)
		snprintf(why, n, "invalid logMessage: expected at most %d parts", PARTS_MAX);
	else if (err == -EINVAL)
		snprintf(why, n,
			 "invalid logMessage '%.100s': expected a name between { and } "
			 "(example: {count}); \\{ is a brace",
			 text);
	return err == -ENOMEM ? err : -EINVAL;
}

void dap_template_free(struct dap_template *t)
{
	for (size_t i = 0; t && i < t->count; i++)
		free(t->part[i].text);
	free(t);
}

bool dap_template_has_names(const struct dap_template *t)
{
	for (size_t i = 0; i < t->count; i++)
		if (t->part[i].kind == PART_NAME)
			return true;
	return false;
}

static const struct signature_value *parameter_of(const struct signature *signature,
						  const char *name)
{
	for (size_t i = 0; signature && i < signature->count; i++)
		if (signature->parameter[i].name && !strcmp(signature->parameter[i].name, name))
			return &signature->parameter[i];
	return NULL;
}

static int lookup_parameter(void *arg, const char *scope, const char *name,
			    struct expression_name *out, char *why, size_t n)
{
	const struct signature_value *v = scope ? NULL : parameter_of(arg, name);

	if (!v || !v->type)
		return -ENOENT;
	*out = (struct expression_name){ .type = v->type, .parameter = v };
	return 0;
}

/* Can the path be followed from where the parameter is at the hit? */
static bool is_reachable(const struct expression_place *p)
{
	const struct signature_value *v = p->parameter;
	uint64_t begins;

	return !v || v->where == SIGNATURE_STACK || v->where == SIGNATURE_MEMORY ||
	       signature_register_of(v, p->path.base, &begins) >= 0;
}

static int bind_path(const struct part *part, struct symbols *s, const struct signature *signature,
		     struct bound_part *out, char *why, size_t n)
{
	const struct expression_options options = { .path_only = true,
						    .name = lookup_parameter,
						    .arg = (void *)(uintptr_t)signature };
	struct expression_error error = { 0 };
	struct expression *e = NULL;
	int err = expression_parse(part->text, &e, &error);

	if (!err)
		err = expression_resolve(s, e, &options, &out->place, &error);
	if (!err && !is_reachable(&out->place)) {
		snprintf(error.text, sizeof(error.text),
			 "that part of the parameter is not in a register of the hit");
		err = -EINVAL;
	}
	expression_free(e);
	if (err && err != -ENOMEM)
		snprintf(why, n, "cannot print {%.100s}: %s", part->text, error.text);
	return err == -ENOMEM || !err ? err : -EINVAL;
}

static int bind_part(const struct part *part, struct symbols *s, const struct signature *signature,
		     struct dap_bound *b, struct bound_part *out, char *why, size_t n)
{
	out->parameter = parameter_of(signature, part->text);
	if (!out->parameter)
		return bind_path(part, s, signature, out, why, n);
	b->texts |= break_value_texts(out->parameter);
	return 0;
}

int dap_template_bind(const struct dap_template *t, struct symbols *s,
		      const struct signature *signature, struct dap_bound **out, char *why,
		      size_t n)
{
	struct dap_bound *b = calloc(1, sizeof(*b));
	int err = b ? 0 : -ENOMEM;

	for (size_t i = 0; i < t->count && !err; i++)
		if (t->part[i].kind == PART_NAME)
			err = bind_part(&t->part[i], s, signature, b, &b->part[i], why, n);
	if (err) {
		free(b);
		return err;
	}
	b->signature = signature;
	*out = b;
	return 0;
}

void dap_bound_free(struct dap_bound *bound)
{
	free(bound);
}

uint32_t dap_bound_texts(const struct dap_bound *bound)
{
	return bound->texts;
}

static uint64_t bits_in(const struct expression_place *p, uint64_t word)
{
	uint64_t mask = p->bit_size >= 64 ? UINT64_MAX : (UINT64_C(1) << p->bit_size) - 1;
	uint64_t value = word >> p->bit_offset & mask;

	if (p->type->is_signed && p->bit_size < 64 && value >> (p->bit_size - 1) & 1)
		value |= ~mask;
	return value;
}

/* An array of char is text. */
static bool is_char_array(const struct type *t)
{
	return t->kind == TYPE_ARRAY && type_target(t)->kind == TYPE_CHARACTER &&
	       type_target(t)->size == 1;
}

static void object_at(struct symbols *s, const struct type *t, uint64_t address, char *buf,
		      size_t n)
{
	struct object o = { .s = s };
	uint64_t size = t->size < OBJECT_BYTES_MAX ? t->size : OBJECT_BYTES_MAX;

	memset(o.state, OBJECT_KNOWN, sizeof(o.state));
	if (object_read(&o, address, o.bytes, size))
		snprintf(buf, n, "<unreadable>");
	else
		object_text(&o, t, buf, n);
}

void dap_place_text(struct symbols *s, const struct expression_place *p, uint64_t address,
		    char *buf, size_t n)
{
	const struct type *t = p->type ? p->type : type_bytes(s, p->size ? p->size : 8);
	uint64_t size = p->bit_size ? p->size : t->size;
	uint64_t word = 0;
	char text[256];

	if (is_char_array(t)) {
		size_t room = t->size && t->size < sizeof(text) ? t->size + 1 : sizeof(text);
		symbols_read_string(s, address, text, room);
		if (!value_quote(text, strlen(text), sizeof(text), buf, n))
			snprintf(buf, n, "<%" PRIu64 " bytes>", t->size);
		return;
	}
	if (t->kind == TYPE_STRUCT || t->kind == TYPE_UNION || t->kind == TYPE_ARRAY || size > 8) {
		object_at(s, t, address, buf, n);
		return;
	}
	if (symbols_read(s, address, &word, size ? size : 8))
		snprintf(buf, n, "<unreadable>");
	else
		value_number_text(s, t, p->bit_size ? bits_in(p, word) : word, buf, n);
}

/* A member of a parameter that is in registers itself: no memory is read. */
static bool member_in_register(const struct expression_place *p, struct symbols *s,
			       const struct trapline_hit *hit, char *buf, size_t n)
{
	uint64_t begins;
	uint64_t word;
	int number = signature_register_of(p->parameter, p->path.base, &begins);

	if (p->path.links || number < 0 || !p->type || p->type->size > 8 ||
	    trapline_hit_register(hit, (unsigned int)number, &word))
		return false;
	word >>= (p->path.base - begins) * 8;
	if (p->bit_size)
		word = bits_in(p, word);
	else if (p->type->size < 8)
		word &= (UINT64_C(1) << p->type->size * 8) - 1;
	value_number_text(s, p->type, word, buf, n);
	return true;
}

/* Where a path leads to: it may begin with a register, on the stack or in memory. */
static bool path_address(const struct expression_place *p, struct symbols *s,
			 const struct trapline_hit *hit, uint64_t *out)
{
	const struct signature_value *v = p->parameter;
	struct expression_path path = p->path;
	uint64_t begins;
	uint64_t word = 0;

	if (!v)
		return !expression_path_follow(s, &path, 0, out);
	if (v->where == SIGNATURE_STACK)
		return !expression_path_follow(s, &path, hit->sp + v->stack, out);
	if (v->where == SIGNATURE_MEMORY)
		return !trapline_hit_register(hit, v->reg[0], &word) &&
		       !expression_path_follow(s, &path, word, out);
	int number = signature_register_of(v, path.base, &begins);
	if (number < 0 || !path.links || trapline_hit_register(hit, (unsigned int)number, &word) ||
	    !word)
		return false;
	/* The first pointer is the register itself. */
	path.base = path.offsets[0];
	path.links--;
	memmove(path.offsets, path.offsets + 1, path.links * sizeof(path.offsets[0]));
	return !expression_path_follow(s, &path, word, out);
}

static void name_text(const struct bound_part *b, struct symbols *s, const struct trapline_hit *hit,
		      char *buf, size_t n, bool *is_later)
{
	uint64_t address;

	if (b->place.parameter && member_in_register(&b->place, s, hit, buf, n))
		return;
	*is_later = true;
	if (path_address(&b->place, s, hit, &address))
		dap_place_text(s, &b->place, address, buf, n);
	else
		snprintf(buf, n, "<unreadable>");
}

static void caller_text(struct symbols *s, const struct trapline_hit *hit, char *buf, size_t n)
{
	struct place place;

	if (!hit->caller) {
		snprintf(buf, n, "?");
		return;
	}
	symbols_place(s, hit->caller - 1, &place);
	run_place_text(&place, hit->caller, buf, n);
}

static void argument_text(const struct trapline_hit *hit, unsigned int number, char *buf, size_t n)
{
	uint64_t word;

	if (trapline_hit_register(hit, (unsigned int)signature_argument_register(number), &word))
		snprintf(buf, n, "?");
	else
		snprintf(buf, n, "0x%" PRIx64, word);
}

static void part_text(const struct part *p, const struct dap_bound *bound, size_t i,
		      struct symbols *s, const struct trapline_hit *hit, char *buf, size_t n,
		      bool *is_later)
{
	struct break_values values = { .s = s, .hit = hit };

	switch (p->kind) {
	case PART_TEXT:
		snprintf(buf, n, "%s", p->text);
		return;
	case PART_THREAD:
		snprintf(buf, n, "%s", hit->thread);
		return;
	case PART_TID:
		snprintf(buf, n, "%d", hit->tid);
		return;
	case PART_CALLER:
		caller_text(s, hit, buf, n);
		return;
	case PART_ARGUMENT:
		argument_text(hit, p->number, buf, n);
		return;
	default:
		break;
	}
	if (!bound->part[i].parameter) {
		name_text(&bound->part[i], s, hit, buf, n, is_later);
		return;
	}
	break_value_text(&values, bound->signature, bound->part[i].parameter, buf, n);
	*is_later = *is_later || values.later;
}

void dap_template_text(const struct dap_template *t, const struct dap_bound *bound,
		       struct symbols *s, const struct trapline_hit *hit, char *buf, size_t n,
		       bool *is_later)
{
	size_t used = 0;

	buf[0] = 0;
	for (size_t i = 0; i < t->count && used + 8 < n; i++) {
		part_text(&t->part[i], bound, i, s, hit, buf + used, n - used, is_later);
		used += strlen(buf + used);
	}
}
