/* SPDX-License-Identifier: MIT */
/* condition_names.c - see condition_names.h. */
#include "report/lang/condition_names.h"

#include "cond/compile.h"
#include "cond/terms.h"
#include "report/dwarf/variables.h"
#include "report/lang/collection.h"
#include "report/lang/container.h"
#include "report/lang/local.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOCALS_MAX 16	  /* of one condition */
#define TREE_DEPTH_MAX 64 /* more than the parser permits */

/* One condition while it is made. */
struct making {
	const struct condition_names *names;
	struct expression *e;
	struct expression *threads;
	struct tree_node both; /* the root of e and that of threads */
	const struct tree_node *root;
	struct condition_parts *out;
	struct signature_value *local[LOCALS_MAX];
	size_t locals;
};

static const struct signature_value *parameter_named(const struct condition_names *names,
						     const char *name)
{
	const struct signature *signature = names->signature;

	for (size_t i = 0; signature && i < signature->count; i++)
		if (signature->parameter[i].name && !strcmp(signature->parameter[i].name, name))
			return &signature->parameter[i];
	return NULL;
}

/*
 * A variable of the code around an instruction inside of a function. 0; -ENOENT: none has that
 * name; -EINVAL: it is in no location there, with why.
 */
static int local_named(struct making *m, const char *name, const struct signature_value **out,
		       char *why, size_t n)
{
	const struct condition_names *names = m->names;

	if (!names->site || names->site->kind == CODE_SITE_FUNCTION || m->locals == LOCALS_MAX)
		return -ENOENT;
	struct signature_value *local = calloc(1, sizeof(*local));
	if (!local)
		return -ENOENT;
	int err = local_find(names->symbols, names->site, name, local, why, n);
	if (err) {
		free(local);
		return err;
	}
	m->local[m->locals++] = local;
	*out = local;
	return 0;
}

/*
 * A parameter as it is at the entry of its function, or what has the name at an instruction of it.
 */
static int value_named(struct making *m, const char *name, const struct signature_value **out,
		       char *why, size_t n)
{
	int err = local_named(m, name, out, why, n);

	if (err == -EINVAL || !err)
		return err;
	*out = parameter_named(m->names, name);
	return *out ? 0 : -ENOENT;
}

/* As in C, a parameter, a local variable or a member of *this hides what has its name outside. */
static bool is_hidden(void *arg, const char *word)
{
	struct making *m = arg;
	const struct signature_value *v;
	struct type_place place;
	char why[400];

	if (!m->names->symbols || (m->names->has_result && !strcmp(word, "ret")))
		return false;
	if (!value_named(m, word, &v, why, sizeof(why)))
		return true;
	return !value_named(m, "this", &v, why, sizeof(why)) && v->type &&
	       v->type->kind == TYPE_POINTER && type_target(v->type) &&
	       type_has_members(type_target(v->type)) &&
	       !type_member_find(type_target(v->type), word, &place);
}

static int find_value(void *arg, const char *scope, const char *name, struct expression_name *out,
		      char *why, size_t n)
{
	const struct signature_value *v = NULL;

	if (scope || value_named(arg, name, &v, why, n) || !v->type)
		return -ENOENT;
	*out = (struct expression_name){ .type = v->type, .parameter = v };
	return 0;
}

static int find_symbol(void *arg, const char *name, uint64_t *address, uint64_t *bytes)
{
	struct variable found;

	/* Without a process only the form can be checked. */
	if (!arg)
		return 0;
	int err = symbols_find(arg, name, &found);
	if (err)
		return err;
	*address = found.address;
	*bytes = found.size;
	return 0;
}

__attribute__((format(printf, 3, 4))) static int
condition_fail(struct expression_error *error, const struct tree_node *n, const char *format, ...)
{
	va_list args;

	error->column = n->start + 1;
	va_start(args, format);
	vsnprintf(error->text, sizeof(error->text), format, args);
	va_end(args);
	return -EINVAL;
}

/* A remedy where there is one: a line at which the parameter is in memory. */
static int vector_fail(const struct making *m, const struct tree_node *n,
		       const struct signature_value *v, const char *why,
		       struct expression_error *error)
{
	const struct code_site *site = m->names->site;
	char line[256];

	if (!v->name || !site || site->kind != CODE_SITE_FUNCTION ||
	    !local_in_memory_later(m->names->symbols, site, v->name, line, sizeof(line)))
		return condition_fail(error, n, "%s", why);
	return condition_fail(error, n, "%s; break on %s, where '%.60s' is in memory", why, line,
			      v->name);
}

static bool is_in_register(const struct signature_value *v, uint64_t offset)
{
	uint64_t begins;

	return signature_register_of(v, offset, &begins) >= 0;
}

static bool is_in_registers(const struct signature_value *v)
{
	return v->where == SIGNATURE_REGISTERS || v->where == SIGNATURE_PIECES;
}

/* The register with the bytes at an offset of a parameter, shifted so that they come first. */
static bool write_register(struct steps *s, const struct signature_value *v, uint64_t offset)
{
	unsigned int number;
	uint64_t begins = 0;
	uint64_t at;

	if (signature_vector_of(v, offset, &number, &at)) {
		number += COND_VECTOR_FIRST;
	} else {
		number = (unsigned int)signature_register_of(v, offset, &begins);
		at = offset - begins;
	}
	bool is_signed = steps_register(s, number);
	return at ? steps_binary(s, COND_SHR, false, steps_number(s, at * 8)) : is_signed;
}

static bool is_in_vector(const struct expression_place *p)
{
	unsigned int number;
	uint64_t at;

	return p->parameter && signature_vector_of(p->parameter, p->path.base, &number, &at);
}

static const char *vector_problem(const struct making *m, const struct expression_place *p,
				  bool is_address)
{
	unsigned int number;
	uint64_t at;

	signature_vector_of(p->parameter, p->path.base, &number, &at);
	if (!m->names->has_vectors)
		return "that parameter is in a floating-point register, which only a probe reads: "
		       "use --mechanism probe";
	if (is_address && !p->path.links)
		return "a parameter in a register has no address";
	return at >= 8 ? "a condition reads only the first 8 bytes of a floating-point register" :
			 NULL;
}

/* Why a path that begins with a parameter cannot be used; NULL: it can. */
static const char *parameter_problem(const struct making *m, const struct expression_place *p,
				     bool is_address)
{
	const struct signature_value *v = p->parameter;

	if (!v)
		return NULL;
	if (is_in_vector(p))
		return vector_problem(m, p, is_address);
	switch (v->where) {
	case SIGNATURE_REGISTERS:
	case SIGNATURE_PIECES:
		if (!is_in_register(v, p->path.base))
			return "that part of the parameter is not in a register of the hit";
		return is_address && !p->path.links ? "a parameter in a register has no address" :
						      NULL;
	case SIGNATURE_CONSTANT:
		return p->path.links || is_address ?
			       "the compiler made a copy of the function for one value of that "
			       "parameter" :
			       NULL;
	case SIGNATURE_VECTOR:
		return "that part of the parameter is in a register that a hit does not record";
	case SIGNATURE_GONE:
		return "the compiler optimised that parameter away";
	case SIGNATURE_UNKNOWN:
		return "debug information has no location of that parameter";
	default:
		return NULL;
	}
}

/* What the path begins with. True: the number is signed. */
static bool write_base(struct steps *s, const struct expression_place *p)
{
	const struct signature_value *v = p->parameter;

	if (!v)
		return steps_number(s, p->path.base);
	if (v->where == SIGNATURE_STACK || v->where == SIGNATURE_FRAME) {
		steps_register(s, v->where == SIGNATURE_FRAME ? v->reg[0] :
								cond_name_find("sp")->number);
		return steps_binary(s, COND_ADD, false, steps_number(s, v->stack + p->path.base));
	}
	steps_register(s, v->reg[0]);
	return steps_binary(s, COND_ADD, false, steps_number(s, p->path.base));
}

/* The address that a path leads to. */
static bool write_address(struct steps *s, const struct expression_place *p)
{
	const struct signature_value *v = p->parameter;
	bool is_pointer = v && is_in_registers(v); /* it need not be loaded */
	bool is_signed = is_pointer ? write_register(s, v, p->path.base) : write_base(s, p);

	for (size_t i = 0; i < p->path.links; i++) {
		if (i || !is_pointer)
			steps_load(s, 8, false);
		is_signed = steps_binary(s, COND_ADD, false, steps_number(s, p->path.offsets[i]));
	}
	return is_signed;
}

/* The number that is there: in memory, in a register, or known. */
static bool write_number(struct steps *s, const struct expression_place *p, uint64_t size)
{
	const struct signature_value *v = p->path.links ? NULL : p->parameter;
	bool is_signed = p->type && p->type->is_signed;
	bool is_value = v && v->where != SIGNATURE_STACK && v->where != SIGNATURE_MEMORY &&
			v->where != SIGNATURE_FRAME;
	bool number_signed = false;

	if (!is_value) {
		write_address(s, p);
		number_signed = steps_load(s, (uint32_t)(p->bit_size ? p->size : size),
					   is_signed && !p->bit_size);
	} else if (v->where == SIGNATURE_CONSTANT) {
		number_signed = steps_number(s, v->constant);
	} else {
		write_register(s, v, p->path.base);
	}
	if (p->bit_size)
		return steps_bits(s, number_signed, p->bit_offset, p->bit_size, is_signed);
	return is_value ? steps_narrow(s, (uint32_t)size, is_signed) : number_signed;
}

/* float and double; -1: the type is not one of those. */
static int float_kind(const struct type *type)
{
	if (!type || type->kind != TYPE_FLOAT || type->refusal)
		return -1;
	return type->size == 4 ? NUMBER_FLOAT : type->size == 8 ? NUMBER_DOUBLE : -1;
}

static int write_place(const struct making *m, const struct tree_node *n, struct steps *s,
		       const struct expression_place *p, struct expression_error *error)
{
	uint64_t size = p->type ? p->type->size : p->size;
	bool is_number = p->type ? type_is_number(p->type) :
				   size == 1 || size == 2 || size == 4 || size == 8;
	bool is_address = n->is_address || (p->type && p->type->kind == TYPE_ARRAY);
	const char *why = parameter_problem(m, p, is_address);

	m->out->has_parameters = m->out->has_parameters || p->parameter;
	if (why && is_in_vector(p))
		return vector_fail(m, n, p->parameter, why, error);
	if (why)
		return condition_fail(error, n, "%s", why);
	if (p->parameter && p->parameter->where == SIGNATURE_FRAME &&
	    symbols_is_32bit(m->names->symbols))
		return condition_fail(
			error, n, "a condition cannot read a local variable of a 32-bit program");
	if (p->path.links && symbols_is_32bit(m->names->symbols))
		return condition_fail(error, n,
				      "a condition cannot follow a pointer of a 32-bit program");
	if (is_address && p->bit_size)
		return condition_fail(error, n, "a bit-field has no address");
	if (is_address)
		return write_address(s, p);
	const int kind = float_kind(p->type);
	if ((!is_number && kind < 0) || (p->bit_size && p->size > 8))
		return condition_fail(error, n, "a condition compares numbers, but this is %s",
				      p->type ? p->type->name : "of unknown size");
	bool is_signed = write_number(s, p, size);
	return kind < 0 ? is_signed : kind;
}

/* Whether the text at a path is compared: str(path) == "text". */
static bool is_text(const struct tree_node *root, const struct tree_node *path, unsigned int depth)
{
	if (!root || depth > TREE_DEPTH_MAX)
		return false;
	if (root->kind == TREE_STRINGS && root->left == path)
		return true;
	return is_text(root->left, path, depth + 1) || is_text(root->right, path, depth + 1) ||
	       is_text(root->other, path, depth + 1);
}

static void move_place(struct expression_place *p, uint64_t offset, const struct type *type)
{
	if (p->path.links)
		p->path.offsets[p->path.links - 1] += offset;
	else
		p->path.base += offset;
	p->type = type;
	p->size = type ? type->size : 0;
}

/* A pointer to what a library stores, as a reference of Rust is, is that: it has no other use. */
static void follow_to_library(struct expression_place *p)
{
	struct collection collection;
	struct container c;

	if (p->bit_size || p->type->kind != TYPE_POINTER || p->path.links == EXPRESSION_LINKS_MAX ||
	    !(container_of(type_target(p->type), &c) ||
	      collection_of(type_target(p->type), &collection)))
		return;
	p->path.offsets[p->path.links++] = 0;
	p->type = type_target(p->type);
}

static bool is_text_of_bytes(const struct container *c)
{
	return c->kind == CONTAINER_TEXT && !c->is_end && c->element->size <= 1;
}

/* A smart pointer is the pointer in it, and in str() a text of a library is its bytes. */
static void enter_container(const struct making *m, const struct tree_node *n,
			    struct expression_place *p)
{
	struct container c;

	if (p->type && !n->is_address && is_text(m->root, n, 0))
		follow_to_library(p);
	if (!p->type || p->bit_size || n->is_address || !container_of(p->type, &c) ||
	    (c.kind != CONTAINER_POINTER && !(is_text_of_bytes(&c) && is_text(m->root, n, 0))))
		return;
	move_place(p, c.data, type_pointer_to(m->names->symbols, c.element));
}

static int resolve_path(struct making *m, const struct tree_node *path,
			struct expression_place *place, struct expression_error *error)
{
	const struct expression_options options = {
		.thread = m->names->thread, .path_only = true, .name = find_value, .arg = m
	};
	struct expression part = *m->e;

	part.root = path;
	return expression_resolve(m->names->symbols, &part, &options, place, error);
}

/* Between the pointers to the first element and behind the last one. */
static int write_distance(struct making *m, const struct tree_node *n, struct steps *s,
			  const struct expression_place *p, const struct container *c,
			  struct expression_error *error)
{
	const struct type *word = type_bytes(m->names->symbols, 8);
	struct expression_place data = *p;
	struct expression_place end = *p;

	move_place(&data, c->data, word);
	move_place(&end, c->length, word);
	int err = write_place(m, n, s, &end, error);
	if (err >= 0)
		err = write_place(m, n, s, &data, error);
	if (err < 0)
		return err;
	steps_binary(s, COND_SUB, false, false);
	steps_number(s, c->element->size);
	return steps_binary(s, COND_DIV, false, false);
}

/* What size(), len() and has_value() return; -ENOENT: the type has no such function here. */
static int write_call(struct making *m, const struct tree_node *n, struct steps *s,
		      struct expression_place *p, const char *call, struct expression_error *error)
{
	bool is_size = !strcmp(call, "size()") || !strcmp(call, "length()") ||
		       !strcmp(call, "len()");
	struct collection collection;
	struct container c;

	if (is_size && container_of(p->type, &c) && c.kind <= CONTAINER_SEQUENCE) {
		if (c.is_end)
			return c.element->size ? write_distance(m, n, s, p, &c, error) : -ENOENT;
		move_place(p, c.length, type_bytes(m->names->symbols, 8));
		return write_place(m, n, s, p, error);
	}
	if (!collection_of(p->type, &collection) || !collection.count)
		return -ENOENT;
	bool is_count = collection.kind <= COLLECTION_TREE;
	bool is_engaged = collection.kind == COLLECTION_OPTIONAL && !strcmp(call, "has_value()");
	if (!(is_size && is_count) && !is_engaged)
		return -ENOENT;
	move_place(p, collection.count_at, collection.count);
	return write_place(m, n, s, p, error);
}

/* A path that ends in `.size()` or the like. */
static int write_member_call(struct making *m, const struct tree_node *n, struct steps *s,
			     struct expression_error *error)
{
	const struct tree_node *path = n->left;
	struct expression_place place;
	int err = resolve_path(m, path->left, &place, error);

	if (!err && place.type)
		follow_to_library(&place);
	err = err ? err : !place.type ? -ENOENT : write_call(m, n, s, &place, path->text, error);
	if (err != -ENOENT || *error->text)
		return err;
	return condition_fail(error, n,
			      "a condition cannot call %s of %s; it reads size() of what a library "
			      "stores, and has_value() of an optional",
			      path->text,
			      place.type ? place.type->name : "a type that is not known");
}

static bool is_call(const struct tree_node *path)
{
	size_t length = path->text ? strlen(path->text) : 0;

	return (path->kind == TREE_MEMBER || path->kind == TREE_ARROW) && length > 2 &&
	       path->text[length - 1] == ')';
}

/* A text with a length of its own has so many bytes. */
static int write_has(void *arg, const struct tree_node *n, uint64_t bytes, struct steps *s,
		     struct expression_error *error)
{
	struct making *m = arg;
	struct expression_place place;
	struct container c;

	if (n->kind != TREE_PATH || !m->names->symbols || is_call(n->left) ||
	    resolve_path(m, n->left, &place, error) || !place.type || n->is_address)
		return 0;
	follow_to_library(&place);
	if (place.bit_size || !container_of(place.type, &c) || c.has_nul || !is_text_of_bytes(&c))
		return 0;
	move_place(&place, c.length, type_bytes(m->names->symbols, 8));
	int err = write_place(m, n, s, &place, error);
	if (err < 0)
		return err;
	steps_number(s, bytes);
	steps_binary(s, COND_GE, false, false);
	return 1;
}

static int write_path(struct making *m, const struct tree_node *n, struct steps *s,
		      struct expression_error *error)
{
	const struct condition_names *names = m->names;
	const struct tree_node *path = n->left;
	const char *name = path->kind == TREE_NAME && !path->scope ? path->text : NULL;
	struct expression_place place;
	int64_t constant;

	if (!names->symbols)
		return steps_number(s, 1);
	if (is_call(path))
		return write_member_call(m, n, s, error);
	name = n->is_address ? NULL : name;
	/* A variable of that name wins, as a local one would in C; looking for it costs more. */
	bool is_enum = names->view.type && names->view.type->kind == TYPE_ENUM;
	int err = name && is_enum &&
				  !type_find_constant(names->symbols, names->view.type, name,
						      &constant) ?
			  -EEXIST :
			  resolve_path(m, path, &place, error);
	if (!err) {
		enter_container(m, n, &place);
		return write_place(m, n, s, &place, error);
	}
	if (err == -EEXIST ||
	    (err == -ENOENT && name &&
	     !type_find_constant(names->symbols, names->view.type, name, &constant))) {
		steps_number(s, (uint64_t)constant);
		return true;
	}
	error->column = error->column ? error->column : n->start + 1;
	return err;
}

/* new and old as the type has them. */
static int write_watched(const struct condition_names *names, struct steps *s, enum cond_term term)
{
	const struct value_view *v = &names->view;
	const int kind = float_kind(v->type);
	bool is_signed = steps_term(s, term);

	if (kind >= 0)
		return kind;

	if (v->type && v->bit_size && v->bit_offset + v->bit_size <= names->len * 8)
		return steps_bits(s, is_signed, v->bit_offset, v->bit_size, v->type->is_signed);
	if (v->type && type_is_number(v->type) && v->type->is_signed && v->type->size == names->len)
		return steps_narrow(s, (uint32_t)names->len, true);
	return is_signed;
}

/* The reason why new or old is not a number here. 0, or -EINVAL with *error. */
static int watched_problem(const struct making *m, const struct tree_node *n,
			   struct expression_error *error)
{
	const struct condition_names *names = m->names;
	const struct type *type = names->view.type;
	const char *word = n->number == COND_NEW ? "new" : "old";

	if (n->number != COND_NEW && n->number != COND_OLD)
		return 0;
	if (n->number == COND_OLD && names->is_shared)
		return condition_fail(error, n,
				      "old is not known: the memory is shared, and other processes "
				      "may write it");
	if (names->is_in_parts)
		return condition_fail(error, n,
				      "%s is one value, but these bytes are watched in several "
				      "parts; choose one member or element",
				      word);
	if (type && type->refusal)
		return condition_fail(error, n,
				      "a condition cannot read %s: it is %s; changed is true for "
				      "other bytes",
				      type->name, type->refusal);
	if (type && type->kind == TYPE_FLOAT && (float_kind(type) < 0 || type->size != names->len))
		return condition_fail(
			error, n,
			"a condition compares float and double, but this is %s; changed is "
			"true for another value",
			type->name);
	return 0;
}

static int write_name(void *arg, const struct tree_node *n, struct steps *s,
		      struct expression_error *error)
{
	struct making *m = arg;

	if (n->kind == TREE_PATH)
		return write_path(m, n, s, error);
	if (watched_problem(m, n, error))
		return -EINVAL;
	/* Another process may have written in between: each write may be a change. */
	if (n->number == COND_CHANGED && m->names->is_shared)
		return steps_number(s, 1);
	if (n->number == COND_CHANGED && m->names->view.type && m->names->view.bit_size) {
		bool is_signed = write_watched(m->names, s, COND_NEW);
		return steps_binary(s, COND_NE, is_signed, write_watched(m->names, s, COND_OLD));
	}
	if (n->number == COND_NEW || n->number == COND_OLD)
		return write_watched(m->names, s, (enum cond_term)n->number);
	return steps_term(s, (enum cond_term)n->number);
}

/* Those of a bit-field in the bytes that are watched; 0: it is not one. */
static uint64_t bits_of(const struct condition_names *names)
{
	const struct value_view *v = &names->view;
	uint64_t mask = v->bit_size >= 64 ? UINT64_MAX : (UINT64_C(1) << v->bit_size) - 1;

	if (!v->bit_size || names->is_shared || names->len > 8 ||
	    v->bit_offset + v->bit_size > names->len * 8)
		return 0;
	return mask << v->bit_offset;
}

static int condition_compile(struct making *m, struct expression_error *error)
{
	const struct trapline_condition_opts opts = { .find_symbol = find_symbol,
						      .arg = m->names->symbols };
	const struct cond_names names = { .write = write_name,
					  .write_has = write_has,
					  .arg = m,
					  .opts = &opts,
					  .bits = bits_of(m->names) };
	const struct tree_node *root = m->root;

	if (!root && !names.bits)
		return 0;
	struct trapline_condition *condition = malloc(sizeof(*condition));
	if (!condition)
		return -ENOMEM;
	int err = cond_compile(root, &names, &condition->ir, error);
	if (err)
		free(condition);
	else
		m->out->entry = condition;
	return err;
}

/* The parts about the result are taken out before, since they are joined by && alone. */
static int join_threads(struct making *m, struct expression_error *error)
{
	m->root = m->e ? m->e->root : NULL;
	if (!m->names->threads)
		return 0;
	int err = tree_of_condition(m->names->threads, NULL, &m->threads, error);
	if (err)
		return err;
	if (!m->root) {
		m->root = m->threads->root;
		return 0;
	}
	m->both = (struct tree_node){
		.kind = TREE_AND, .left = m->root, .right = m->threads->root, .column = 1
	};
	m->root = &m->both;
	return 0;
}

int condition_make(const struct condition_names *names, const char *text,
		   struct condition_parts *out, struct expression_error *error)
{
	struct condition_parts parts = { 0 };
	struct making m = { .names = names, .out = &parts };
	const struct tree_names words = { .hides = is_hidden, .arg = &m };
	int err = text ? tree_of_condition(text, &words, &m.e, error) : 0;

	if (!err && text && names->has_result)
		err = result_take(m.e, &parts.result, error);
	if (!err)
		err = join_threads(&m, error);
	if (!err)
		err = condition_compile(&m, error);
	if (m.e)
		tree_free(m.e);
	if (m.threads)
		tree_free(m.threads);
	for (size_t i = 0; i < m.locals; i++)
		free(m.local[i]);
	if (!err)
		*out = parts;
	return err;
}
