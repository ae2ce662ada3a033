/* SPDX-License-Identifier: MIT */
/*
 * compile.c - a walk over the tree. Each function writes what leaves one number on the stack, and
 * returns its kind. The first error wins; after it nothing that is written matters.
 *
 * A comparison of floating-point numbers is one of whole numbers in the same order (order.h), and
 * arithmetic is done by their bits (soft.h). So the kernel can do both as well.
 */
#include "cond/compile.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct compiler {
	const struct cond_names *names;
	struct steps steps;
	struct expression_error *error;
	uint32_t depth;
	int err;
};

static enum number_kind compile(struct compiler *c, const struct tree_node *n);

__attribute__((format(printf, 4, 5))) static void
compile_fail(struct compiler *c, int err, const struct tree_node *n, const char *format, ...)
{
	va_list args;

	if (c->err)
		return;
	c->err = err;
	c->error->column = n->column;
	va_start(args, format);
	vsnprintf(c->error->text, sizeof(c->error->text), format, args);
	va_end(args);
}

/* What only whole numbers have: bits, remainders, addresses. */
static bool compile_whole(struct compiler *c, const struct tree_node *n)
{
	enum number_kind kind = compile(c, n);

	if (number_is_float(kind))
		compile_fail(c, -EINVAL, n,
			     "a whole number is needed here, and this is a floating-point number; "
			     "(s64) before it cuts it");
	return kind == NUMBER_SIGNED;
}

/* As a truth value. */
static void compile_truth(struct compiler *c, const struct tree_node *n)
{
	enum number_kind kind = compile(c, n);

	if (number_is_float(kind))
		steps_compare_constant(&c->steps, COND_NE, kind, 0);
}

/* Keeps a string constant; returns its offset. */
static uint16_t keep_string(struct compiler *c, const struct tree_node *n, uint32_t len)
{
	struct condition *out = c->steps.out;
	uint32_t at = out->strings_used;

	if (at + len > COND_STRINGS_BYTES) {
		compile_fail(c, -E2BIG, n, "the strings have more than 512 bytes");
		return 0;
	}
	memcpy(out->strings + at, n->text, n->len);
	out->strings_used += len;
	return (uint16_t)at;
}

static void find_symbol(struct compiler *c, const struct tree_node *n, uint64_t *address,
			uint64_t *bytes)
{
	const struct trapline_condition_opts *opts = c->names->opts;
	int err = -ENOENT;

	*address = 0;
	*bytes = 0;
	if (opts && opts->find_symbol)
		err = opts->find_symbol(opts->arg, n->text, address, bytes);
	if (err)
		compile_fail(c, -EINVAL, n, "no symbol is named '%s'", n->text);
}

static bool compile_symbol(struct compiler *c, const struct tree_node *n)
{
	uint64_t address;
	uint64_t bytes;

	find_symbol(c, n, &address, &bytes);
	steps_number(&c->steps, address);
	return false;
}

/* value in NAME: inside the symbol. */
static bool compile_in(struct compiler *c, const struct tree_node *n)
{
	uint64_t address;
	uint64_t bytes;

	compile_whole(c, n->left);
	find_symbol(c, n, &address, &bytes);
	struct cond_step *step = steps_put(&c->steps, COND_IN, 1, 1);

	step->imm = address;
	step->imm2 = address + (bytes ? bytes : 1);
	return true;
}

static bool compile_thread(struct compiler *c, const struct tree_node *n)
{
	uint16_t at = keep_string(c, n, COND_THREAD_NAME);
	const bool is_beginning = n->len && n->text[n->len - 1] == '*';
	struct cond_step *step = steps_put(&c->steps, COND_THREAD, 0, 1);

	step->arg = at;
	step->size = (uint8_t)(is_beginning ? n->len - 1 : COND_THREAD_NAME);
	if (n->is_negative)
		steps_put(&c->steps, COND_NOT, 1, 1);
	return true;
}

static bool compile_strings(struct compiler *c, const struct tree_node *n)
{
	struct cond_step *skip = NULL;
	int has = c->names->write_has && !c->err ?
			  c->names->write_has(c->names->arg, n->left, n->len, &c->steps, c->error) :
			  0;

	if (has < 0)
		c->err = has;
	if (has > 0)
		skip = steps_skip(&c->steps, false);
	compile_whole(c, n->left);
	uint16_t at = keep_string(c, n, n->len);
	struct cond_step *step = steps_put(&c->steps, COND_STRING, 1, 1);

	step->arg = at;
	step->size = (uint8_t)n->len;
	if (skip)
		steps_skip_end(&c->steps, skip);
	if (n->is_negative)
		steps_put(&c->steps, COND_NOT, 1, 1);
	return true;
}

static bool compile_count(struct compiler *c, const struct tree_node *n)
{
	const struct trapline_condition_opts *opts = c->names->opts;
	struct condition *out = c->steps.out;
	struct trapline_event *event = NULL;
	uint32_t at = 0;

	if (opts && opts->find_event)
		event = opts->find_event(opts->arg, n->text);
	if (!event)
		compile_fail(c, -EINVAL, n, "no event is named '%s'", n->text);
	while (at < out->event_count && out->events[at] != event)
		at++;
	if (at == COND_EVENTS_MAX)
		compile_fail(c, -E2BIG, n, "more than 8 events are counted");
	if (c->err)
		return false;
	out->events[at] = event;
	out->event_count += at == out->event_count;
	steps_put(&c->steps, COND_COUNT, 0, 1)->arg = (uint16_t)at;
	return false;
}

static enum number_kind compile_unary(struct compiler *c, const struct tree_node *n)
{
	enum number_kind kind;

	if (n->op == COND_NOT) {
		compile_truth(c, n->left);
		steps_put(&c->steps, COND_NOT, 1, 1);
		return NUMBER_SIGNED;
	}
	kind = n->op == COND_NEG ? compile(c, n->left) :
				   (enum number_kind)compile_whole(c, n->left);
	if (!number_is_float(kind)) {
		steps_put(&c->steps, (enum cond_op)n->op, 1, 1);
		return kind;
	}
	steps_number(&c->steps, UINT64_C(1) << (kind == NUMBER_FLOAT ? 31 : 63));
	steps_put(&c->steps, COND_XOR, 2, 1);
	return kind;
}

/* ---- comparisons ---- */

struct constant {
	bool is_float;
	double value;
};

static bool is_constant(const struct tree_node *n, struct constant *out)
{
	if (n->kind == TREE_UNARY && n->op == COND_NEG && is_constant(n->left, out)) {
		out->value = -out->value;
		return true;
	}
	if (n->kind != TREE_NUMBER)
		return false;
	out->is_float = n->is_float;
	out->value = n->is_unsigned ? (double)n->number : (double)(int64_t)n->number;
	if (n->is_float)
		memcpy(&out->value, &n->number, sizeof(out->value));
	return true;
}

/* The operator of the same comparison when its sides are exchanged. */
static enum cond_op mirrored(enum cond_op op)
{
	switch (op) {
	case COND_LT:
		return COND_GT;
	case COND_LE:
		return COND_GE;
	case COND_GT:
		return COND_LT;
	case COND_GE:
		return COND_LE;
	default:
		return op;
	}
}

/* As in C, a whole number gets the type of the floating-point number on the other side. */
static void convert_whole(struct compiler *c, enum number_kind *left, enum number_kind *right)
{
	if (number_is_float(*left) == number_is_float(*right))
		return;
	if (number_is_float(*left)) {
		steps_convert(&c->steps, *right, *left, 0);
		*right = *left;
	} else {
		steps_convert(&c->steps, *left, *right, 1);
		*left = *right;
	}
}

/* The left side is written. */
static bool compare_with(struct compiler *c, enum cond_op op, enum number_kind left,
			 const struct tree_node *right)
{
	enum number_kind kind = compile(c, right);

	convert_whole(c, &left, &kind);
	if (!number_is_float(left))
		return steps_binary(&c->steps, op, left == NUMBER_SIGNED, kind == NUMBER_SIGNED);
	steps_order(&c->steps, op, left, false);
	steps_order(&c->steps, op, kind, true);
	return steps_binary(&c->steps, op, false, false);
}

static bool compile_comparison(struct compiler *c, const struct tree_node *n)
{
	const struct tree_node *left = n->left;
	const struct tree_node *right = n->right;
	enum cond_op op = (enum cond_op)n->op;
	struct constant with;

	if (is_constant(left, &with) && !is_constant(right, &with)) {
		left = n->right;
		right = n->left;
		op = mirrored(op);
	}
	enum number_kind kind = compile(c, left);
	const bool has_constant = is_constant(right, &with);
	if (has_constant && !with.is_float && kind == NUMBER_FLOAT)
		with.value = (double)(float)with.value;
	if (has_constant && number_is_float(kind))
		return steps_compare_constant(&c->steps, op, kind, with.value);
	if (has_constant && with.is_float)
		return steps_compare_whole(&c->steps, op, kind == NUMBER_SIGNED, with.value);
	return compare_with(c, op, kind, right);
}

/* + - * / */
static enum number_kind compile_arithmetic(struct compiler *c, const struct tree_node *n)
{
	struct steps *s = &c->steps;
	enum number_kind left = compile(c, n->left);
	enum number_kind right = compile(c, n->right);

	convert_whole(c, &left, &right);
	if (!number_is_float(left))
		return steps_binary(s, (enum cond_op)n->op, left == NUMBER_SIGNED,
				    right == NUMBER_SIGNED);
	if (left != right) {
		steps_convert(s, left, NUMBER_DOUBLE, 1);
		steps_convert(s, right, NUMBER_DOUBLE, 0);
		left = NUMBER_DOUBLE;
	}
	return steps_arithmetic(s, (enum cond_op)n->op, left);
}

static enum number_kind compile_cast(struct compiler *c, const struct tree_node *n)
{
	enum number_kind from = compile(c, n->left);
	const bool is_unsigned = n->size == 8 && !n->is_signed;

	if (n->is_float) {
		enum number_kind to = n->size == 4 ? NUMBER_FLOAT : NUMBER_DOUBLE;
		steps_convert(&c->steps, from, to, 0);
		return to;
	}
	if (number_is_float(from))
		steps_convert(&c->steps, from, is_unsigned ? NUMBER_UNSIGNED : NUMBER_SIGNED, 0);
	return (enum number_kind)steps_narrow(&c->steps, n->size, n->is_signed);
}

static enum number_kind compile_binary(struct compiler *c, const struct tree_node *n)
{
	if (n->op >= COND_EQ && n->op <= COND_GE)
		return compile_comparison(c, n);
	if (n->op <= COND_DIV)
		return compile_arithmetic(c, n);
	bool left = compile_whole(c, n->left);

	return steps_binary(&c->steps, (enum cond_op)n->op, left, compile_whole(c, n->right));
}

static bool compile_logic(struct compiler *c, const struct tree_node *n)
{
	compile_truth(c, n->left);
	struct cond_step *skip = steps_skip(&c->steps, n->kind == TREE_OR);

	compile_truth(c, n->right);
	return steps_skip_end(&c->steps, skip);
}

static enum number_kind compile_choice(struct compiler *c, const struct tree_node *n)
{
	compile_truth(c, n->left);
	struct cond_step *otherwise = steps_put(&c->steps, COND_JUMP_IF_0, 1, 0);
	enum number_kind kind = compile(c, n->right);
	struct cond_step *end = steps_put(&c->steps, COND_JUMP, 0, 0);

	c->steps.height--; /* the other branch leaves its number in the same location */
	steps_land(&c->steps, otherwise);
	enum number_kind other = compile(c, n->other);
	steps_land(&c->steps, end);
	if ((number_is_float(kind) || number_is_float(other)) && kind != other)
		compile_fail(
			c, -EINVAL, n,
			"both sides of ':' must have one type; (f64) before a number converts it");
	return number_is_float(kind) ? kind : kind & other;
}

static enum number_kind compile_name(struct compiler *c, const struct tree_node *n)
{
	int kind = c->names->write ? c->names->write(c->names->arg, n, &c->steps, c->error) :
				     steps_term(&c->steps, (enum cond_term)n->number);

	if (kind < 0)
		c->err = c->err ? c->err : kind;
	return kind < 0 ? NUMBER_UNSIGNED : (enum number_kind)kind;
}

static enum number_kind compile_number(struct compiler *c, const struct tree_node *n)
{
	if (n->is_float && n->size == 4) {
		double value;
		uint32_t bits;

		memcpy(&value, &n->number, sizeof(value));
		const float single = (float)value;
		memcpy(&bits, &single, sizeof(bits));
		steps_number(&c->steps, bits);
		return NUMBER_FLOAT;
	}
	steps_number(&c->steps, n->number);
	if (n->is_float)
		return NUMBER_DOUBLE;
	return n->is_unsigned ? NUMBER_UNSIGNED : NUMBER_SIGNED;
}

static enum number_kind compile_load(struct compiler *c, const struct tree_node *n)
{
	compile_whole(c, n->left);
	bool is_signed = steps_load(&c->steps, n->size, n->is_signed);

	if (n->is_float)
		return n->size == 4 ? NUMBER_FLOAT : NUMBER_DOUBLE;
	return (enum number_kind)is_signed;
}

static enum number_kind compile_node(struct compiler *c, const struct tree_node *n)
{
	struct steps *s = &c->steps;

	switch (n->kind) {
	case TREE_NUMBER:
		return compile_number(c, n);
	case TREE_REG:
		return steps_register(s, (uint32_t)n->number);
	case TREE_NARROW:
		return compile_cast(c, n);
	case TREE_LOAD:
		return compile_load(c, n);
	case TREE_SYMBOL:
		return compile_symbol(c, n);
	case TREE_IN:
		return compile_in(c, n);
	case TREE_UNARY:
		return compile_unary(c, n);
	case TREE_BINARY:
		return compile_binary(c, n);
	case TREE_AND:
	case TREE_OR:
		return compile_logic(c, n);
	case TREE_CHOICE:
		return compile_choice(c, n);
	case TREE_STRINGS:
		return compile_strings(c, n);
	case TREE_THREAD:
		return compile_thread(c, n);
	case TREE_COUNT:
		return compile_count(c, n);
	default: /* a term or a path */
		return compile_name(c, n);
	}
}

static enum number_kind compile(struct compiler *c, const struct tree_node *n)
{
	enum number_kind kind = NUMBER_UNSIGNED;

	if (c->err)
		return kind;
	/* Each level writes a step at least. */
	if (c->depth++ < COND_STEPS_MAX)
		kind = compile_node(c, n);

	if (c->steps.is_full || c->depth > COND_STEPS_MAX)
		compile_fail(c, -E2BIG, n, "the condition is too long or too deep");
	c->depth--;
	return kind;
}

/* True if one of the bits changed, or nothing changed. */
static void compile_bits(struct steps *s, uint64_t bits)
{
	steps_term(s, COND_NEW);
	steps_term(s, COND_OLD);
	steps_binary(s, COND_XOR, false, false);
	steps_number(s, bits);
	steps_binary(s, COND_AND, false, true);
	steps_number(s, 0);
	steps_binary(s, COND_NE, false, true);
	struct cond_step *skip = steps_skip(s, true);

	steps_term(s, COND_NEW);
	steps_term(s, COND_OLD);
	steps_binary(s, COND_EQ, false, false);
	steps_skip_end(s, skip);
}

int cond_compile(const struct tree_node *root, const struct cond_names *names,
		 struct condition *out, struct expression_error *error)
{
	static const struct tree_node nothing = { .column = 1 };
	struct compiler c = { .names = names, .error = error, .steps.out = out };
	struct cond_step *skip = NULL;

	memset(out, 0, sizeof(*out));
	memset(error, 0, sizeof(*error));
	if (root)
		compile_truth(&c, root);
	if (root && names->bits)
		skip = steps_skip(&c.steps, false);
	if (names->bits)
		compile_bits(&c.steps, names->bits);
	if (skip)
		steps_skip_end(&c.steps, skip);
	if (c.steps.is_full)
		compile_fail(&c, -E2BIG, &nothing, "the condition is too long or too deep");
	return c.err;
}

void cond_error_place(const char *text, const struct expression_error *from,
		      struct trapline_condition_error *out)
{
	*out = (struct trapline_condition_error){ .line = 1, .column = 1 };
	for (int rest = from->column - 1; rest > 0 && *text; text++, rest--) {
		out->column = *text == '\n' ? 1 : out->column + 1;
		out->line += *text == '\n';
	}
	snprintf(out->message, sizeof(out->message), "%.*s", (int)sizeof(out->message) - 1,
		 from->text);
}

int cond_parse(const char *text, const struct trapline_condition_opts *opts, struct condition *out,
	       struct trapline_condition_error *error)
{
	const struct cond_names names = { .opts = opts };
	struct expression_error wrong;
	struct expression *e;

	memset(error, 0, sizeof(*error));
	int err = tree_of_condition(text, NULL, &e, &wrong);
	if (!err) {
		err = cond_compile(e->root, &names, out, &wrong);
		tree_free(e);
	}
	if (err && err != -ENOMEM)
		cond_error_place(text, &wrong, error);
	return err;
}
