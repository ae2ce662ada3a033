/* SPDX-License-Identifier: MIT */
/*
 * hit_template.c - see hit_template.h.
 *
 * Values are those of the hit: in registers, or in memory that the kernel copied. What it could not
 * copy is read a moment later, and the line reports it.
 */
#include "cli/observe/hit_template.h"

#include "cli/break/break_args.h"
#include "cli/break/break_redact.h"
#include "cli/observe/hit_memory.h"
#include "report/lang/local.h"
#include "report/lang/object.h"
#include "report/lang/value.h"
#include "report/run/run.h"

#include <ctype.h>
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

struct hit_template {
	struct part part[PARTS_MAX];
	size_t count;
};

/* For PART_NAME: a whole parameter, or a path from one or from a global. */
struct bound_part {
	const struct signature_value *parameter;
	bool is_place;
	bool is_redacted;
	struct expression_place place;
};

struct hit_bound {
	const struct signature *signature;
	const struct signature_value *local[PARTS_MAX]; /* that were looked up */
	size_t locals;
	bool wants_stack;
	struct bound_part part[PARTS_MAX];
	uint32_t texts;
	uint32_t vectors;
};

static int part_add(struct hit_template *t, enum part_kind kind, const char *text, size_t length)
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
static int name_add(struct hit_template *t, const char *from, const char *end)
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
static int text_add(struct hit_template *t, const char *from, const char *end)
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

static int parts_of(struct hit_template *t, const char *text)
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

int hit_template_parse(const char *text, struct hit_template **out, char *why, size_t n)
{
	struct hit_template *t = calloc(1, sizeof(*t));
	int err = t ? parts_of(t, text) : -ENOMEM;

	if (!err) {
		*out = t;
		return 0;
	}
	hit_template_free(t);
	if (err == -E2BIG)
		snprintf(why, n, "expected at most %d parts", PARTS_MAX);
	else if (err == -EINVAL)
		snprintf(why, n,
			 "expected a name between { and } (example: {count}); \\{ is a brace");
	return err == -ENOMEM ? err : -EINVAL;
}

void hit_template_free(struct hit_template *t)
{
	for (size_t i = 0; t && i < t->count; i++)
		free(t->part[i].text);
	free(t);
}

bool hit_template_has_names(const struct hit_template *t)
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

/* Where names are looked up that a path begins with. */
struct binding {
	struct symbols *s;
	const struct code_site *site;
	struct hit_bound *bound;
};

/*
 * A parameter, or a local variable of the code around the line. At the entry of a function its
 * local variables do not exist yet. 0; -ENOENT: it is neither; -EINVAL with why; -ENOMEM.
 */
static int find_local(struct binding *b, const char *name, const struct signature_value **out,
		      char *why, size_t n)
{
	const struct signature_value *v = parameter_of(b->bound->signature, name);
	struct signature_value *local;

	if (b->site->kind == CODE_SITE_FUNCTION || b->bound->locals == PARTS_MAX) {
		*out = v;
		return v ? 0 : -ENOENT;
	}
	local = calloc(1, sizeof(*local));
	if (!local)
		return -ENOMEM;
	int err = local_find(b->s, b->site, name, local, why, n);
	if (!err) {
		b->bound->local[b->bound->locals++] = local;
		*out = local;
		return 0;
	}
	free(local);
	if (err == -ENOENT && v)
		*out = v;
	return err == -ENOENT && v ? 0 : err;
}

static int lookup_local(void *arg, const char *scope, const char *name, struct expression_name *out,
			char *why, size_t n)
{
	const struct signature_value *v = NULL;
	int err = scope ? -ENOENT : find_local(arg, name, &v, why, n);

	if (err || !v->type)
		return -ENOENT;
	*out = (struct expression_name){ .type = v->type, .parameter = v };
	return 0;
}

/* Can the path be followed from where the parameter is at the hit? */
static bool is_reachable(const struct expression_place *p)
{
	const struct signature_value *v = p->parameter;
	unsigned int number;
	uint64_t begins;

	if (v && !p->path.links && signature_vector_of(v, p->path.base, &number, &begins))
		return true;
	return !v || v->where == SIGNATURE_STACK || v->where == SIGNATURE_MEMORY ||
	       v->where == SIGNATURE_FRAME || signature_register_of(v, p->path.base, &begins) >= 0;
}

static bool is_one_name(const char *text)
{
	while (isalnum((unsigned char)*text) || *text == '_')
		text++;
	return !*text;
}

static int bind_path(const struct part *part, struct binding *b, struct bound_part *out, char *why,
		     size_t n)
{
	const struct expression_options options = { .path_only = true,
						    .name = lookup_local,
						    .arg = b };
	struct expression_error error = { 0 };
	struct expression *e = NULL;
	int err = expression_parse(part->text, &e, &error);
	const char *no_value = err ? NULL : expression_no_value(e);

	if (no_value) {
		snprintf(error.text, sizeof(error.text), "%s", no_value);
		err = -EINVAL;
	}
	if (!err)
		err = expression_resolve(b->s, e, &options, &out->place, &error);
	if (!err && !is_reachable(&out->place)) {
		snprintf(error.text, sizeof(error.text),
			 "that part of the variable is not in a register of the hit");
		err = -EINVAL;
	}
	expression_free(e);
	out->is_place = !err;
	if (err && err != -ENOMEM && b->site->kind == CODE_SITE_LINE && is_one_name(part->text))
		snprintf(why, n, "cannot print {%.100s}: no variable of that name exists at %.100s",
			 part->text, b->site->name);
	else if (err && err != -ENOMEM)
		snprintf(why, n, "cannot print {%.100s}: %s", part->text, error.text);
	return err == -ENOMEM || !err ? err : -EINVAL;
}

static bool is_on_stack(const struct signature_value *v)
{
	return v && (v->where == SIGNATURE_STACK || v->where == SIGNATURE_FRAME);
}

static void bound_vectors(struct hit_bound *bound, const struct signature_value *v)
{
	uint32_t n = v ? signature_vectors(v) : 0;

	bound->vectors = n > bound->vectors ? n : bound->vectors;
}

static int bind_part(const struct part *part, struct binding *b, struct bound_part *out, char *why,
		     size_t n)
{
	const struct signature_value *v = NULL;
	char cause[400] = "";
	int err = find_local(b, part->text, &v, cause, sizeof(cause));

	if (err == -EINVAL)
		snprintf(why, n, "cannot print {%.100s}: %s", part->text, cause);
	if (err == -EINVAL || err == -ENOMEM)
		return err;
	bool is_reference = v && v->type && v->type->kind == TYPE_REFERENCE;
	if (!v || is_reference || v->where == SIGNATURE_FRAME) {
		err = bind_path(part, b, out, why, n);
		b->bound->wants_stack = b->bound->wants_stack || is_on_stack(out->place.parameter);
		bound_vectors(b->bound, out->place.parameter);
		return err;
	}
	out->parameter = v;
	b->bound->texts |= break_value_texts(v);
	bound_vectors(b->bound, v);
	b->bound->wants_stack = b->bound->wants_stack || is_on_stack(v);
	return 0;
}

int hit_template_bind(const struct hit_template *t, struct symbols *s, const struct code_site *site,
		      const struct signature *signature, struct hit_bound **out, char *why,
		      size_t n)
{
	struct hit_bound *bound = calloc(1, sizeof(*bound));
	struct binding b = { .s = s, .site = site, .bound = bound };
	int err = bound ? 0 : -ENOMEM;

	if (bound)
		bound->signature = signature;
	for (size_t i = 0; i < t->count && !err; i++)
		if (t->part[i].kind == PART_NAME)
			err = bind_part(&t->part[i], &b, &bound->part[i], why, n);
	if (err) {
		hit_bound_free(bound);
		return err;
	}
	*out = bound;
	return 0;
}

void hit_bound_redact(struct hit_bound *bound, const struct hit_template *t,
		      const struct opt_list *names)
{
	for (size_t i = 0; i < t->count; i++) {
		bool is_value = t->part[i].kind == PART_NAME || t->part[i].kind == PART_ARGUMENT;

		/* Its memory is not copied either. */
		if (is_value && break_redacts_text(names, bound->signature, t->part[i].text))
			bound->part[i] = (struct bound_part){ .is_redacted = true };
	}
}

void hit_bound_free(struct hit_bound *bound)
{
	for (size_t i = 0; bound && i < bound->locals; i++)
		free((void *)(uintptr_t)bound->local[i]);
	free(bound);
}

bool hit_bound_wants_stack(const struct hit_bound *bound)
{
	return bound->wants_stack;
}

void hit_bound_copies(const struct hit_bound *bound, struct hit_copies *c)
{
	for (size_t i = 0; i < PARTS_MAX; i++) {
		const struct bound_part *part = &bound->part[i];
		if (part->parameter)
			hit_copies_value(c, part->parameter);
		else if (part->is_place)
			hit_copies_place(c, &part->place);
	}
}

uint32_t hit_bound_texts(const struct hit_bound *bound)
{
	return bound->texts;
}

uint32_t hit_bound_vectors(const struct hit_bound *bound)
{
	return bound->vectors;
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
	struct object o = { .s = s, .address = address };
	uint64_t size = t->size < OBJECT_BYTES_MAX ? t->size : OBJECT_BYTES_MAX;

	memset(o.state, OBJECT_KNOWN, sizeof(o.state));
	if (symbols_read_copied(s, address, o.bytes, size))
		snprintf(buf, n, "<unreadable>");
	else
		object_text(&o, t, buf, n);
}

static void place_text(struct symbols *s, const struct trapline_hit *hit,
		       const struct expression_place *p, uint64_t address, char *buf, size_t n,
		       bool *is_later)
{
	const struct type *t = p->type ? p->type : type_bytes(s, p->size ? p->size : 8);
	uint64_t size = p->bit_size ? p->size : t->size;
	uint64_t word = 0;
	char text[256];

	if (is_char_array(t)) {
		size_t room = t->size && t->size < sizeof(text) ? t->size : sizeof(text) - 1;
		memset(text, 0, sizeof(text));
		/* What does not fit, or is not all readable, is read up to its end. */
		if (hit_memory_read(s, hit, address, text, room, is_later))
			symbols_read_string(s, address, text, room + 1);
		if (!value_quote(text, strlen(text), sizeof(text), buf, n))
			snprintf(buf, n, "<%" PRIu64 " bytes>", t->size);
		return;
	}
	if (t->kind == TYPE_STRUCT || t->kind == TYPE_UNION || t->kind == TYPE_ARRAY || size > 8) {
		object_at(s, t, address, buf, n);
		return;
	}
	if (hit_memory_read(s, hit, address, &word, size ? size : 8, is_later))
		snprintf(buf, n, "<unreadable>");
	else
		value_number_text(s, t, p->bit_size ? bits_in(p, word) : word, buf, n);
}

void hit_place_text(struct symbols *s, const struct expression_place *p, uint64_t address,
		    char *buf, size_t n)
{
	bool is_later = false;

	place_text(s, NULL, p, address, buf, n, &is_later);
}

static bool member_in_vector(const struct expression_place *p, struct symbols *s,
			     const struct trapline_hit *hit, char *buf, size_t n)
{
	uint64_t words[2];
	uint64_t word = 0;
	unsigned int number;
	uint64_t at;

	if (p->bit_size || !signature_vector_of(p->parameter, p->path.base, &number, &at) ||
	    at + p->type->size > sizeof(words))
		return false;
	if (trapline_hit_vector(hit, number, words)) {
		snprintf(buf, n, "<in xmm%u>", number);
		return true;
	}
	memcpy(&word, (const char *)words + at, p->type->size);
	value_number_text(s, p->type, word, buf, n);
	return true;
}

/* A member of a parameter that is in registers itself: no memory is read. */
static bool member_in_register(const struct expression_place *p, struct symbols *s,
			       const struct trapline_hit *hit, char *buf, size_t n)
{
	uint64_t begins;
	uint64_t word;
	int number = signature_register_of(p->parameter, p->path.base, &begins);

	if (p->path.links || !p->type || p->type->size > 8)
		return false;
	if (number < 0)
		return member_in_vector(p, s, hit, buf, n);
	if (trapline_hit_register(hit, (unsigned int)number, &word))
		return false;
	word >>= (p->path.base - begins) * 8;
	if (p->bit_size)
		word = bits_in(p, word);
	else if (p->type->size < 8)
		word &= (UINT64_C(1) << p->type->size * 8) - 1;
	value_number_text(s, p->type, word, buf, n);
	return true;
}

/* Where the variable begins that a path counts from. False: the hit does not have the register. */
static bool variable_address(const struct signature_value *v, const struct trapline_hit *hit,
			     uint64_t *out)
{
	uint64_t word;

	if (v->where == SIGNATURE_STACK) {
		*out = hit->sp + v->stack;
		return true;
	}
	if (trapline_hit_register(hit, v->reg[0], &word))
		return false;
	*out = word + (v->where == SIGNATURE_FRAME ? v->stack : 0);
	return true;
}

/* The links of a path from the given one on, of which address is where the pointer is. */
static bool follow_links(struct symbols *s, const struct trapline_hit *hit,
			 const struct expression_path *path, size_t link, uint64_t address,
			 uint64_t *out, bool *is_later)
{
	uint64_t pointer;

	for (; link < path->links; link++) {
		if (hit_memory_read(s, hit, address, &pointer, sizeof(pointer), is_later) ||
		    !pointer)
			return false;
		address = pointer + path->offsets[link];
	}
	*out = address;
	return true;
}

/* Where a path leads to: it may begin with a register, on the stack or in memory. */
static bool path_address(const struct expression_place *p, struct symbols *s,
			 const struct trapline_hit *hit, uint64_t *out, bool *is_later)
{
	const struct signature_value *v = p->parameter;
	uint64_t begins;
	uint64_t word = 0;

	if (!v)
		return follow_links(s, hit, &p->path, 0, p->path.base, out, is_later);
	if (v->where == SIGNATURE_STACK || v->where == SIGNATURE_MEMORY ||
	    v->where == SIGNATURE_FRAME)
		return variable_address(v, hit, &begins) &&
		       follow_links(s, hit, &p->path, 0, begins + p->path.base, out, is_later);
	/* The first pointer is the register itself. */
	int number = signature_register_of(v, p->path.base, &begins);
	return number >= 0 && p->path.links &&
	       !trapline_hit_register(hit, (unsigned int)number, &word) && word &&
	       follow_links(s, hit, &p->path, 1, word + p->path.offsets[0], out, is_later);
}

static void name_text(const struct bound_part *b, struct symbols *s, const struct trapline_hit *hit,
		      char *buf, size_t n, bool *is_later)
{
	uint64_t address;

	if (b->place.parameter && member_in_register(&b->place, s, hit, buf, n))
		return;
	if (path_address(&b->place, s, hit, &address, is_later))
		place_text(s, hit, &b->place, address, buf, n, is_later);
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

static void part_text(const struct part *p, const struct hit_bound *bound, size_t i,
		      struct symbols *s, const struct trapline_hit *hit, char *buf, size_t n,
		      bool *is_later)
{
	struct break_values values = { .s = s, .hit = hit };

	if (bound->part[i].is_redacted) {
		snprintf(buf, n, BREAK_REDACTED);
		return;
	}
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

void hit_template_text(const struct hit_template *t, const struct hit_bound *bound,
		       struct symbols *s, const struct trapline_hit *hit, char *buf, size_t n,
		       bool *is_later)
{
	struct symbols_copies copies;
	size_t used = 0;

	buf[0] = 0;
	hit_memory_begin(&copies, s, hit);
	for (size_t i = 0; i < t->count && used + 8 < n; i++) {
		part_text(&t->part[i], bound, i, s, hit, buf + used, n - used, is_later);
		used += strlen(buf + used);
	}
	*is_later = hit_memory_end(&copies, s) || *is_later;
}
