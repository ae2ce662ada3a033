/* SPDX-License-Identifier: MIT */
/*
 * compile.c - a walk over the tree. Each function writes what leaves one number on the stack, and
 * returns whether that is signed. The first error wins; after it nothing that is written matters.
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

static bool compile(struct compiler *c, const struct tree_node *n);

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

	compile(c, n->left);
	find_symbol(c, n, &address, &bytes);
	struct cond_step *step = steps_put(&c->steps, COND_IN, 1, 1);

	step->imm = address;
	step->imm2 = address + (bytes ? bytes : 1);
	return true;
}

static bool compile_thread(struct compiler *c, const struct tree_node *n)
{
	uint16_t at = keep_string(c, n, COND_THREAD_NAME);

	steps_put(&c->steps, COND_THREAD, 0, 1)->arg = at;
	if (n->is_negative)
		steps_put(&c->steps, COND_NOT, 1, 1);
	return true;
}

static bool compile_strings(struct compiler *c, const struct tree_node *n)
{
	compile(c, n->left);
	uint16_t at = keep_string(c, n, n->len);
	struct cond_step *step = steps_put(&c->steps, COND_STRING, 1, 1);

	step->arg = at;
	step->size = (uint8_t)n->len;
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

static bool compile_unary(struct compiler *c, const struct tree_node *n)
{
	bool is_signed = compile(c, n->left);

	steps_put(&c->steps, (enum cond_op)n->op, 1, 1);
	return is_signed || n->op == COND_NOT;
}

static bool compile_logic(struct compiler *c, const struct tree_node *n)
{
	compile(c, n->left);
	struct cond_step *skip = steps_skip(&c->steps, n->kind == TREE_OR);

	compile(c, n->right);
	return steps_skip_end(&c->steps, skip);
}

static bool compile_choice(struct compiler *c, const struct tree_node *n)
{
	compile(c, n->left);
	struct cond_step *otherwise = steps_put(&c->steps, COND_JUMP_IF_0, 1, 0);
	bool is_signed = compile(c, n->right);
	struct cond_step *end = steps_put(&c->steps, COND_JUMP, 0, 0);

	c->steps.height--; /* the other branch leaves its number in the same location */
	steps_land(&c->steps, otherwise);
	is_signed &= compile(c, n->other);
	steps_land(&c->steps, end);
	return is_signed;
}

static bool compile_name(struct compiler *c, const struct tree_node *n)
{
	int is_signed = c->names->write ? c->names->write(c->names->arg, n, &c->steps, c->error) :
					  steps_term(&c->steps, (enum cond_term)n->number);

	if (is_signed < 0)
		c->err = c->err ? c->err : is_signed;
	return is_signed > 0;
}

static bool compile_node(struct compiler *c, const struct tree_node *n)
{
	struct steps *s = &c->steps;

	switch (n->kind) {
	case TREE_NUMBER:
		steps_number(s, n->number);
		return !n->is_unsigned;
	case TREE_REG:
		return steps_register(s, (uint32_t)n->number);
	case TREE_NARROW:
		compile(c, n->left);
		return steps_narrow(s, n->size, n->is_signed);
	case TREE_LOAD:
		compile(c, n->left);
		return steps_load(s, n->size, n->is_signed);
	case TREE_SYMBOL:
		return compile_symbol(c, n);
	case TREE_IN:
		return compile_in(c, n);
	case TREE_UNARY:
		return compile_unary(c, n);
	case TREE_BINARY: {
		bool left = compile(c, n->left);
		return steps_binary(s, (enum cond_op)n->op, left, compile(c, n->right));
	}
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

static bool compile(struct compiler *c, const struct tree_node *n)
{
	if (c->err)
		return false;
	/* Each level writes a step at least. */
	bool is_signed = c->depth++ < COND_STEPS_MAX && compile_node(c, n);

	if (c->steps.is_full || c->depth > COND_STEPS_MAX)
		compile_fail(c, -E2BIG, n, "the condition is too long or too deep");
	c->depth--;
	return is_signed;
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
		compile(&c, root);
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
