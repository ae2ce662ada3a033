/* SPDX-License-Identifier: MIT */
/*
 * expression_resolve.c - from a parsed expression to an address, a type and a length.
 *
 * What is found is carried as a path (see struct expression_path) and, unless only the path is
 * wanted, as the address it has now. Every error has the column of the part that caused it.
 */
#include "report/lang/expression.h"
#include "report/lang/expression_spot.h"

#include "report/dwarf/missing.h"
#include "report/dwarf/near.h"
#include "report/dwarf/threads.h"
#include "report/dwarf/variables.h"
#include "report/lang/container.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 64

struct resolver {
	struct symbols *s;
	const struct expression *e;
	const struct expression_options *options;
	struct expression_error *error;
	struct expression_place *out; /* module, tid, through */
	char source[TREE_PLACE_MAX + 1];
	bool is_unknown; /* options->name stated so: the name is not a variable either */
};

__attribute__((format(printf, 4, 5))) static int fail(struct resolver *r, const struct tree_node *n,
						      int err, const char *format, ...)
{
	va_list args;

	r->error->column = n ? n->column : 0;
	va_start(args, format);
	vsnprintf(r->error->text, sizeof(r->error->text), format, args);
	va_end(args);
	return err;
}

/* The text of a node, for `the pointer a->b is NULL`. */
static const char *source_of(struct resolver *r, const struct tree_node *n)
{
	snprintf(r->source, sizeof(r->source), "%.*s", n->end - n->start, r->e->source + n->start);
	return r->source;
}

static int no_types(struct resolver *r, const struct tree_node *n)
{
	struct missing_dwarf missing;

	missing_dwarf_of(r->s, r->out->module, &missing);
	return fail(r, n, -EINVAL,
		    "%s %s: types and members are not known; %s, or give symbol+offset:len",
		    r->out->module ? r->out->module : symbols_program(r->s), missing.cause,
		    missing.remedy);
}

static int read_pointer(struct resolver *r, const struct tree_node *n, struct spot *p)
{
	const char *source = source_of(r, n);
	size_t used = strlen(r->out->through);
	uint64_t value;

	if (symbols_is_32bit(r->s))
		return fail(r, n, -EINVAL,
			    "cannot follow the pointer %s: %s is a 32-bit program; give "
			    "the address that it points to",
			    source, symbols_program(r->s));
	int err = symbols_read(r->s, p->address, &value, sizeof(value));
	if (err == -EACCES)
		return fail(r, n, err,
			    "cannot read the pointer %s: reading the memory of another "
			    "process needs root, or kernel.yama.ptrace_scope 0",
			    source);
	if (err)
		return fail(r, n, -EFAULT,
			    "cannot read the pointer %s: no memory is mapped at "
			    "0x%" PRIx64,
			    source, p->address);
	if (!value)
		return fail(r, n, -EFAULT, "the pointer %s is NULL now: there is nothing to watch",
			    source);
	if (used < sizeof(r->out->through))
		snprintf(r->out->through + used, sizeof(r->out->through) - used,
			 "%s%.80s = 0x%" PRIx64, used ? ", " : "", source, value);
	p->address = value;
	return 0;
}

/* Follows a pointer. n is the node of the pointer. */
static int follow(struct resolver *r, const struct tree_node *n, struct spot *p)
{
	if (p->bit_size)
		return fail(r, n, -EINVAL, "a bit-field is not a pointer");
	p->type = p->type ? type_target(p->type) : NULL;
	if (p->is_value) {
		p->is_value = false;
		return 0;
	}
	if (p->path.links == EXPRESSION_LINKS_MAX)
		return fail(r, n, -EINVAL, "the path has more than %d pointers",
			    EXPRESSION_LINKS_MAX);
	if (!r->options->path_only) {
		int err = read_pointer(r, n, p);
		if (err)
			return err;
	} else {
		p->address = 0;
	}
	p->path.offsets[p->path.links++] = 0;
	return 0;
}

/* C++ references are followed without an operator. */
static int follow_references(struct resolver *r, const struct tree_node *n, struct spot *p)
{
	int err = 0;

	while (!err && p->type && p->type->kind == TYPE_REFERENCE && !p->is_value)
		err = follow(r, n, p);
	return err;
}

static int unknown_name(struct resolver *r, const struct tree_node *n)
{
	const char *near[3];
	struct near_list list = { .names = near, .max = 3 };
	char question[200];

	/* What resembles it in a library hides the cause: the program exports few names. */
	bool is_stripped = !n->scope && symbols_is_stripped(r->s);
	list.count = is_stripped ? symbols_near_own(r->s, n->text, near, 3) :
				   variables_near(r->s, n->text, near, 3);
	near_question(&list, question, sizeof(question));
	if (n->scope)
		return fail(r, n, -ENOENT, "no variable is named '%s' in %s%s", n->text, n->scope,
			    question);
	if (is_stripped && (!list.count || near_score(n->text, near[0]) > 1)) {
		char remedy[MISSING_TEXT];
		missing_remedy(r->s, remedy, sizeof(remedy));
		return fail(r, n, -ENOENT,
			    "%s is stripped: it names no variable '%s'; %s, or give an address",
			    symbols_program(r->s), n->text, remedy);
	}
	return fail(r, n, -ENOENT, "no variable is named '%s' in %s%s", n->text,
		    symbols_program(r->s),
		    list.count ? question : "; trapline watch --list shows the variables");
}

static int place_in_thread(struct resolver *r, const struct tree_node *n,
			   const struct named_variable *v, struct spot *p)
{
	char why[420];
	pid_t tid;
	int err = threads_choose(r->s, r->options->thread, &tid, why, sizeof(why));

	if (!err)
		err = threads_local(r->s, tid, v->object, v->address, &p->address, why,
				    sizeof(why));
	if (err)
		return fail(r, n, err, "'%s' is thread-local: %s", v->name, why);
	r->out->tid = tid;
	return 0;
}

/*
 * The same whether one local variable has that name or many: libraries have some where debug
 * symbols are.
 */
static int no_value_there(struct resolver *r, const struct tree_node *n)
{
	return fail(r, n, -EINVAL,
		    "no variable named '%s' has a value there: it belongs to other code, or the "
		    "compiler optimised it away",
		    n->text);
}

static int place_of(struct resolver *r, const struct tree_node *n, const struct named_variable *v,
		    struct spot *p)
{
	switch (v->where) {
	case VARIABLE_STATIC:
		p->address = v->address;
		return 0;
	case VARIABLE_THREAD:
		return place_in_thread(r, n, v, p);
	case VARIABLE_CONSTANT:
		return fail(r, n, -EINVAL,
			    "'%s' has no address: the compiler put its value, %" PRId64
			    ", into the code",
			    v->name, v->constant);
	case VARIABLE_FUNCTION:
		return fail(r, n, -EINVAL,
			    "'%s' is a function: use trapline break, or give its address "
			    "0x%" PRIx64 " to watch its bytes",
			    v->name, v->address);
	case VARIABLE_LOCAL:
		/* One of a library, which has debug information, is not what was meant. */
		if (!n->scope && symbols_is_stripped(r->s) && v->module &&
		    strcmp(v->module, symbols_program(r->s)) != 0)
			return unknown_name(r, n);
		if (r->options->name)
			return no_value_there(r, n);
		return fail(r, n, -EINVAL,
			    "'%s' is a local variable, so it has no fixed address; watch it "
			    "in each frame: FUNCTION:%s",
			    v->name, n->text);
	default:
		if (r->options->name)
			return no_value_there(r, n);
		return fail(r, n, -EINVAL, "'%s' has no address: the compiler optimised it away",
			    v->name);
	}
}

/*
 * What a hit will bring. 0, or -ENOENT: the name is a variable, or nothing, which r->is_unknown
 * states.
 */
static int resolve_value(struct resolver *r, const struct tree_node *n, const char *name,
			 struct spot *p)
{
	struct expression_name found = { 0 };
	char why[400] = "";

	if (!r->options->name ||
	    r->options->name(r->options->arg, n->scope, name, &found, why, sizeof(why))) {
		r->is_unknown = why[0] != '\0';
		return r->is_unknown ? fail(r, n, -ENOENT, "%s", why) : -ENOENT;
	}
	*p = (struct spot){ .type = found.type, .is_value = !found.parameter };
	p->size = found.type && found.parameter ? found.type->size : 0;
	r->out->parameter = found.parameter;
	return 0;
}

static int enter_member(struct resolver *r, const struct tree_node *n, struct spot *p);

/*
 * In a method of C++ a name may be a member of its object. 0; -ENOENT: it is not, or *r->error is
 * set.
 */
static int resolve_own_member(struct resolver *r, const struct tree_node *n, const char *name,
			      struct spot *p)
{
	struct type_place place;
	char why[400] = "";
	struct expression_name object = { 0 };

	if (!r->options->name || n->scope || strcmp(name, n->text) != 0 ||
	    r->options->name(r->options->arg, NULL, "this", &object, why, sizeof(why)) ||
	    !object.parameter || object.type->kind != TYPE_POINTER)
		return -ENOENT;
	const struct type *type = type_target(object.type);
	if (!type || !type_has_members(type) || type_member_find(type, name, &place))
		return -ENOENT;
	*p = (struct spot){ .type = object.type, .size = object.type->size };
	r->out->parameter = object.parameter;
	int err = follow(r, n, p);
	return err ? err : enter_member(r, n, p);
}

static int resolve_variable(struct resolver *r, const struct tree_node *n, const char *name,
			    struct spot *p)
{
	struct variables_problem problem;
	struct named_variable v;

	int err = resolve_value(r, n, name, p);
	if (!err || r->is_unknown)
		return err;
	err = resolve_own_member(r, n, name, p);
	if (err != -ENOENT)
		return err;
	err = variables_find(r->s, n->scope, name, &v, &problem);

	if (err == -ENOTUNIQ && !v.name[0])
		return fail(r, n, err, "%s", problem.text);
	if (err && err != -ENOTUNIQ)
		return err;
	r->out->is_first_of_several = err == -ENOTUNIQ;
	memset(p, 0, sizeof(*p));
	p->type = v.type;
	p->size = v.size;
	r->out->module = v.module;
	err = place_of(r, n, &v, p);
	p->path.base = p->address;
	return err;
}

static int resolve_name(struct resolver *r, const struct tree_node *n, struct spot *p)
{
	int err = resolve_variable(r, n, n->text, p);

	return err == -ENOENT && !r->error->text[0] ? unknown_name(r, n) : err;
}

static int resolve(struct resolver *r, const struct tree_node *n, struct spot *p,
		   unsigned int depth);

/*
 * In Go a variable is called main.count, and in a symbol table count.0 is a static variable of some
 * function. So what looks like a member may be part of the name. 0, -ENOENT: it is not.
 */
static int resolve_dotted(struct resolver *r, const struct tree_node *n, struct spot *p)
{
	char name[TREE_PLACE_MAX + 1];

	if (n->kind != TREE_MEMBER || n->left->kind != TREE_NAME)
		return -ENOENT;
	snprintf(name, sizeof(name), "%.250s.%.250s", n->left->text, n->text);
	return resolve_variable(r, n->left, name, p);
}

static int unknown_member(struct resolver *r, const struct tree_node *n, const struct type *t)
{
	const char *near[3];
	struct near_list list = { .names = near, .max = 3 };
	char question[200];
	size_t members;

	list.count = type_members_near(t, n->text, near, 3);
	near_question(&list, question, sizeof(question));
	type_members(t, &members);
	if (!members)
		return fail(r, n, -ENOENT,
			    "%s is only declared in the debug information: its members are "
			    "not known",
			    t->name);
	return fail(r, n, -ENOENT, "%s has no member '%s'%s", t->name, n->text, question);
}

/* Moves to a virtual base class, whose offset is in the object's table. */
static int enter_virtual_base(struct resolver *r, const struct tree_node *n, struct spot *p,
			      const struct type_place *place)
{
	uint64_t table;
	int64_t distance;

	if (symbols_is_32bit(r->s) || (r->options->path_only && p->path.links))
		return fail(r, n, -EINVAL,
			    "'%s' is in a virtual base class, whose offset depends on the "
			    "object",
			    n->text);
	uint64_t object = p->address + place->table_at;
	if (symbols_read(r->s, object, &table, sizeof(table)) ||
	    symbols_read(r->s, table - place->vtable_offset, &distance, sizeof(distance)))
		return fail(r, n, -EFAULT,
			    "cannot read the table of virtual bases at 0x%" PRIx64 ": no "
			    "object is there",
			    object);
	spot_add(p, place->table_at + (uint64_t)distance);
	return 0;
}

static int enter_member(struct resolver *r, const struct tree_node *n, struct spot *p)
{
	struct type_place place;

	if (!p->type)
		return no_types(r, n);
	if (!type_has_members(p->type))
		return fail(r, n, -EINVAL, "'%s' needs a struct before it, but this is %s%s",
			    n->kind == TREE_ARROW ? "->" : ".", p->type->name,
			    p->type->kind == TYPE_POINTER ? ", a pointer: use ->" : "");
	int err = type_member_find(p->type, n->text, &place);
	if (err == -ENOTUNIQ)
		return fail(r, n, err, "two base classes of %s have a member '%s': give Base::%s",
			    p->type->name, n->text, n->text);
	if (err)
		return unknown_member(r, n, p->type);
	if (place.vtable_offset)
		err = enter_virtual_base(r, n, p, &place);
	if (err)
		return err;
	spot_add(p, place.offset);
	p->type = place.type;
	p->bit_offset = place.bit_offset;
	p->bit_size = place.bit_size;
	return 0;
}

/* Resolves what is before the '.' or '->'; *is_whole: it and the member are one name. */
static int resolve_left(struct resolver *r, const struct tree_node *n, struct spot *p,
			bool *is_whole, unsigned int depth)
{
	if (n->left->kind != TREE_NAME)
		return resolve(r, n->left, p, depth + 1);
	int err = resolve_variable(r, n->left, n->left->text, p);
	if (!err || r->is_unknown)
		return err;
	/* In Go `main` is a function too, and `main.count` a variable. */
	struct expression_error error = *r->error;
	int whole_err = resolve_dotted(r, n, p);
	*is_whole = !whole_err;
	if (!whole_err || (err == -ENOENT && r->error->text[0]))
		return whole_err;
	*r->error = error;
	return err == -ENOENT && !error.text[0] ? unknown_name(r, n->left) : err;
}

/*
 * Moves to the pointer to the elements of a container; false: it is not a container of this kind.
 */
static bool enter_container(struct resolver *r, struct spot *p, enum container_kind kind)
{
	struct container c;

	if (p->bit_size || !container_of(p->type, &c) || c.kind != kind)
		return false;
	spot_add(p, c.data);
	p->type = kind == CONTAINER_ARRAY ? c.element : type_pointer_to(r->s, c.element);
	return true;
}

static int follow_arrow(struct resolver *r, const struct tree_node *n, struct spot *p)
{
	if (!p->type)
		return no_types(r, n);
	if (p->type->kind == TYPE_POINTER || enter_container(r, p, CONTAINER_POINTER))
		return follow(r, n->left, p);
	return fail(r, n, -EINVAL, "'->' needs a pointer before it, but this is %s%s",
		    p->type->name, type_has_members(p->type) ? ": use ." : "");
}

static int resolve_member(struct resolver *r, const struct tree_node *n, struct spot *p,
			  unsigned int depth)
{
	bool is_whole = false;
	int err = resolve_left(r, n, p, &is_whole, depth);

	if (!err && !is_whole)
		err = follow_references(r, n->left, p);
	if (err || is_whole)
		return err;
	if (n->kind == TREE_ARROW)
		err = follow_arrow(r, n, p);
	return err ? err : enter_member(r, n, p);
}

/* A number in the target, for an index that is a variable. */
static int index_value(struct resolver *r, const struct tree_node *n, int64_t *out,
		       unsigned int depth)
{
	struct spot p = { 0 };
	uint64_t value = 0;

	if (n->kind == TREE_NUMBER) {
		*out = (int64_t)n->number;
		return 0;
	}
	if (r->options->path_only)
		return fail(r, n, -EINVAL, "an index in a condition must be a number");
	int err = resolve(r, n, &p, depth + 1);
	if (err)
		return err;
	if (!p.type || !type_is_number(p.type) || p.bit_size)
		return fail(r, n, -EINVAL, "an index must be a whole number");
	if (symbols_read(r->s, p.address, &value, p.type->size))
		return fail(r, n, -EFAULT, "cannot read the index");
	unsigned int shift = 64 - 8 * (unsigned int)p.type->size;
	*out = p.type->is_signed ? (int64_t)(value << shift) >> shift : (int64_t)value;
	return 0;
}

/* For a vector, string or slice: its pointer to the elements, when there is such an element now. */
static int enter_elements(struct resolver *r, const struct tree_node *n, struct spot *p,
			  int64_t index)
{
	uint64_t data = 0;
	uint64_t end = 0;
	struct container c;

	if (p->type->kind != TYPE_STRUCT || p->bit_size || !container_of(p->type, &c) ||
	    c.kind == CONTAINER_POINTER)
		return 0;
	bool is_known = c.kind != CONTAINER_ARRAY && !r->options->path_only && c.element->size &&
			!symbols_read(r->s, p->address + c.data, &data, sizeof(data)) &&
			!symbols_read(r->s, p->address + c.length, &end, sizeof(end));
	uint64_t count = c.is_end && is_known ? (end - data) / c.element->size : end;
	if (is_known && (uint64_t)index >= count)
		return fail(r, n, -EINVAL, "%s has %" PRIu64 " element%s now, and none is %" PRId64,
			    p->type->name, count, count == 1 ? "" : "s", index);
	enter_container(r, p, c.kind);
	return 0;
}

static int resolve_index(struct resolver *r, const struct tree_node *n, struct spot *p,
			 unsigned int depth)
{
	int64_t index = 0;
	int err = resolve(r, n->left, p, depth + 1);

	if (!err)
		err = follow_references(r, n->left, p);
	if (!err)
		err = index_value(r, n->right, &index, depth);
	if (err)
		return err;
	if (!p->type)
		return no_types(r, n);
	index = n->is_negative ? -index : index;
	err = enter_elements(r, n, p, index);
	if (err)
		return err;
	const struct type *element = type_target(p->type);
	if (p->type->refusal)
		return fail(r, n, -EINVAL, "cannot read elements of %s: it is %s", p->type->name,
			    p->type->refusal);
	if (p->type->kind == TYPE_ARRAY) {
		const int64_t lower = p->type->lower;
		if ((p->type->count && (uint64_t)(index - lower) >= p->type->count) ||
		    index < lower)
			return fail(r, n, -EINVAL,
				    "%s has no element %" PRId64 ": expected %" PRId64
				    " to %" PRId64,
				    p->type->name, index, lower,
				    lower + (int64_t)p->type->count - 1);
		index -= lower;
		p->type = element;
	} else if (p->type->kind == TYPE_POINTER) {
		err = follow(r, n->left, p);
	} else {
		return fail(r, n, -EINVAL,
			    "'[' needs an array or a pointer before it, but this is %s",
			    p->type->name);
	}
	if (!err && !element->size)
		return fail(r, n, -EINVAL, "the size of an element of %s is not known",
			    element->name);
	if (!err)
		spot_add(p, (uint64_t)index * element->size);
	return err;
}

static int no_type(struct resolver *r, const struct tree_node *n)
{
	struct missing_dwarf missing;
	bool is_missing = missing_dwarf_of(r->s, NULL, &missing);

	return fail(r, n, -ENOENT, "no type is named '%s' in %s%s%s%s", n->text,
		    symbols_program(r->s), is_missing ? ", which " : "",
		    is_missing ? missing.cause : "",
		    is_missing ? "; built-in types are int, unsigned long, u8 to u64, s8 to s64, "
				 "double and the like" :
				 "");
}

static int resolve_cast(struct resolver *r, const struct tree_node *n, struct spot *p,
			unsigned int depth)
{
	const struct type *t = type_find(r->s, n->text);

	if (!t)
		return no_type(r, n);
	int err = resolve(r, n->left, p, depth + 1);
	if (err)
		return err;
	for (uint64_t i = 0; i < n->number; i++)
		t = type_pointer_to(r->s, t);
	if (n->left->kind == TREE_NUMBER)
		p->is_value = true;
	else if (p->is_value)
		; /* as it is in its register */
	else if (p->bit_size || (p->type && p->type->size != type_address_size(r->s)))
		return fail(r, n, -EINVAL, "only a pointer or an address can be cast to a pointer");
	p->type = t;
	return 0;
}

/* Bytes, as +offset everywhere here and as arguments in conditions. */
static int resolve_sum(struct resolver *r, const struct tree_node *n, struct spot *p,
		       unsigned int depth)
{
	int err = resolve(r, n->left, p, depth + 1);

	if (err)
		return err;
	if (!p->is_value || (p->type && p->type->kind != TYPE_POINTER && !type_is_number(p->type)))
		return fail(r, n, -EINVAL,
			    "an offset inside the path needs an argument that is a pointer; "
			    "for a variable write [index], or +offset at the end");
	spot_add(p, n->is_negative ? -n->number : n->number);
	p->type = NULL;
	return 0;
}

static int resolve_deref(struct resolver *r, const struct tree_node *n, struct spot *p,
			 unsigned int depth)
{
	int err = resolve(r, n->left, p, depth + 1);

	if (!err)
		err = follow_references(r, n->left, p);
	if (err)
		return err;
	if (n->left->kind == TREE_NUMBER)
		return fail(r, n, -EINVAL,
			    "the type at that address is not known: give it, as in "
			    "*(type *)0x..., or give the address and a length, as in 0x...:8");
	if (!p->type && p->is_value)
		return follow(r, n->left, p); /* plain bytes: the length states how many */
	if (!p->type)
		return no_types(r, n);
	if (p->type->kind == TYPE_ARRAY) {
		p->type = type_target(p->type);
		return 0;
	}
	if (p->type->kind != TYPE_POINTER && !enter_container(r, p, CONTAINER_POINTER))
		return fail(r, n, -EINVAL, "'*' needs a pointer behind it, but this is %s",
			    p->type->name);
	return follow(r, n->left, p);
}

static int resolve(struct resolver *r, const struct tree_node *n, struct spot *p,
		   unsigned int depth)
{
	if (depth > DEPTH_MAX)
		return fail(r, n, -EINVAL, "nested too deep");
	switch (n->kind) {
	case TREE_NAME:
		return resolve_name(r, n, p);
	case TREE_NUMBER:
		*p = (struct spot){ .address = n->number, .path.base = n->number };
		return 0;
	case TREE_CAST:
		return resolve_cast(r, n, p, depth);
	case TREE_DEREF:
		return resolve_deref(r, n, p, depth);
	case TREE_MEMBER:
	case TREE_ARROW:
		return resolve_member(r, n, p, depth);
	case TREE_INDEX:
		return resolve_index(r, n, p, depth);
	case TREE_SUM:
		return resolve_sum(r, n, p, depth);
	default:
		return fail(r, n, -EINVAL, "this is not an expression");
	}
}

int expression_resolve(struct symbols *s, const struct expression *e,
		       const struct expression_options *options, struct expression_place *out,
		       struct expression_error *error)
{
	struct expression_place place = { 0 };
	struct resolver r = { .s = s, .e = e, .options = options, .error = error, .out = &place };
	struct spot p = { 0 };

	memset(error, 0, sizeof(*error));
	int err = resolve(&r, e->root, &p, 0);
	if (!err)
		err = follow_references(&r, e->root, &p);
	if (err)
		return err;
	if (p.is_value)
		return fail(&r, e->root, -EINVAL,
			    "this is the value of a pointer: write * before it "
			    "to watch what it points to");
	if (e->has_offset && e->root->kind == TREE_CAST && e->root->number)
		return fail(&r, e->root, -EINVAL,
			    "C counts elements from a pointer, and +offset counts bytes: write "
			    "NAME+BYTES:LENGTH, or [index] behind a variable of that type");
	p.size = p.type && p.type->size ? p.type->size : p.size;
	if (e->has_offset)
		spot_apply_offset(e, &p);
	place.size = e->has_offset ? p.type ? p.type->size : 0 : p.size;
	if (p.bit_size)
		spot_cover_bits(&p, &place.size);
	place.is_address = e->root->kind == TREE_NUMBER;
	place.address = p.address;
	place.type = p.type;
	place.bit_offset = p.bit_offset;
	place.bit_size = p.bit_size;
	place.path = p.path;
	*out = place;
	return 0;
}
