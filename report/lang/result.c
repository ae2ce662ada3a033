/* SPDX-License-Identifier: MIT */
/* result.c - see result.h. */
#include "report/lang/result.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool is_result(const struct tree_node *n)
{
	return n->kind == TREE_REG && !strcmp(n->text, "ret");
}

static bool has_result(const struct tree_node *n)
{
	return n && (is_result(n) || has_result(n->left) || has_result(n->right) ||
		     has_result(n->other));
}

/* A number or a constant. */
static bool take_wanted(const struct tree_node *n, struct result_test *out)
{
	bool is_negative = n->kind == TREE_UNARY && n->op == COND_NEG;

	n = is_negative ? n->left : n;
	if (n->kind == TREE_NUMBER) {
		out->value = (int64_t)(is_negative ? -n->number : n->number);
		return true;
	}
	if (is_negative || n->kind != TREE_PATH || n->is_address || n->left->kind != TREE_NAME ||
	    n->left->scope)
		return false;
	snprintf(out->name, sizeof(out->name), "%s", n->left->text);
	return strlen(n->left->text) < sizeof(out->name);
}

/* `ret OP constant`, or `ret` alone. */
static bool take_test(const struct tree_node *n, struct result_test *out)
{
	*out = (struct result_test){ .op = COND_NE };
	if (is_result(n))
		return true;
	if (n->kind != TREE_BINARY || n->op < COND_EQ || n->op > COND_GE || !is_result(n->left))
		return false;
	out->op = (enum cond_op)n->op;
	return take_wanted(n->right, out);
}

/* The node without its tests; NULL: nothing is left. The first error stays. */
static const struct tree_node *result_cut(struct expression *e, const struct tree_node *n,
					  struct result_tests *out, struct expression_error *error)
{
	if (!has_result(n))
		return n;
	if (n->kind == TREE_AND) {
		struct tree_node *both = &e->nodes[n - e->nodes];
		both->left = result_cut(e, n->left, out, error);
		both->right = result_cut(e, n->right, out, error);
		return !both->left ? both->right : both->right ? both : both->left;
	}
	if (out->count < RESULT_TESTS_MAX && take_test(n, &out->test[out->count]))
		out->count++;
	else if (!error->text[0])
		snprintf(error->text, sizeof(error->text),
			 "cannot evaluate '%.*s': compare ret with a number or a constant, as in "
			 "'ret < 0 && ...'",
			 n->end - n->start, e->source + n->start);
	return NULL;
}

int result_take(struct expression *e, struct result_tests *out, struct expression_error *error)
{
	memset(error, 0, sizeof(*error));
	e->root = result_cut(e, e->root, out, error);
	return error->text[0] ? -EINVAL : 0;
}

static int constant_of(const struct result_test *test, struct symbols *s, const struct type *type,
		       int64_t *out)
{
	*out = test->value;
	if (!test->name[0])
		return 0;
	*out = 0;
	if (!strcmp(test->name, "NULL") || !strcmp(test->name, "false"))
		return 0;
	return type_find_constant(s, type, test->name, out);
}

const char *result_unknown(const struct result_tests *tests, struct symbols *s,
			   const struct type *type)
{
	int64_t unused;

	for (size_t i = 0; i < tests->count; i++)
		if (constant_of(&tests->test[i], s, type, &unused))
			return tests->test[i].name;
	return NULL;
}

static bool compares(enum cond_op op, int order)
{
	switch (op) {
	case COND_EQ:
		return !order;
	case COND_NE:
		return order != 0;
	case COND_LT:
		return order < 0;
	case COND_LE:
		return order <= 0;
	case COND_GT:
		return order > 0;
	default:
		return order >= 0;
	}
}

bool result_holds(const struct result_tests *tests, struct symbols *s, const struct type *type,
		  uint64_t value)
{
	unsigned int unused =
		type && type->size && type->size < 8 ? 64 - 8 * (unsigned int)type->size : 0;
	bool is_signed = !type || type->is_signed;
	int64_t is = is_signed ? (int64_t)(value << unused) >> unused :
				 (int64_t)(value << unused >> unused);

	for (size_t i = 0; i < tests->count; i++) {
		int64_t wanted;
		if (constant_of(&tests->test[i], s, type, &wanted))
			return false;
		/* Flipping the sign bit turns signed order into unsigned order. */
		uint64_t flip = is_signed ? UINT64_C(1) << 63 : 0;
		uint64_t a = (uint64_t)is ^ flip;
		uint64_t b = (uint64_t)wanted ^ flip;
		if (!compares(tests->test[i].op, (a > b) - (a < b)))
			return false;
	}
	return true;
}
