/* SPDX-License-Identifier: MIT */
/* float_random.c - see float_random.h. */
#include "float_random.h"

#include <stdio.h>
#include <string.h>

#include "condition_random.h"

const char *const number_type_names[] = { "f64", "f32", "s64", "u64" };

double random_double(void)
{
	static const double some[] = { 0.0, -0.0, 1.0, 1.5, -1.5, 0.1, 3e-39, -1e-45, 4.9e-324, 1e308,
				       9223372036854775808.0, 18446744073709551616.0,
				       -9223372036854775808.0, 4503599627370497.5 };
	uint64_t bits = random_next();
	double value;

	if (random_below(2))
		return some[random_below(sizeof(some) / sizeof(some[0]))];
	if (random_below(8) == 0)
		bits |= 0x7ffull << 52;
	memcpy(&value, &bits, sizeof(value));
	return value;
}

const char *const float_comparisons[] = { "==", "!=", "<", "<=", ">", ">=" };

int float_holds(uint32_t op, long double a, long double b)
{
	switch (op) {
	case 0:
		return a == b;
	case 1:
		return a != b;
	case 2:
		return a < b;
	case 3:
		return a <= b;
	case 4:
		return a > b;
	default:
		return a >= b;
	}
}

void side_set(const struct side *side, double value)
{
	uint64_t bits = random_interesting();
	float small = (float)value;

	if (side->type == F64)
		memcpy(&bits, &value, 8);
	else if (side->type == F32 && random_below(4))
		memcpy(&bits, &small, 4);
	else if (random_below(2) && value > -9e18 && value < 9e18)
		bits = (uint64_t)(int64_t)value;
	memcpy(side->at, &bits, 8);
}

long double side_value(const struct side *side)
{
	uint64_t bits;
	double value;
	float small;

	memcpy(&bits, side->at, 8);
	memcpy(&value, side->at, 8);
	memcpy(&small, side->at, 4);
	switch (side->type) {
	case F64:
		return value;
	case F32:
		return small;
	case S64:
		return (int64_t)bits;
	default:
		return bits;
	}
}

/* The bits of each matter in a sum; and whole numbers. */
static double random_near(void)
{
	uint64_t bits = random_next();
	double value;

	if (random_below(3) == 0)
		return ((double)random_below(200) - 100) / 8;
	bits = (bits & ~(0x7ffull << 52)) | (1023 - 30 + random_below(60)) << 52;
	if (random_below(3) == 0)
		bits &= ~0ull << random_below(52);
	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* Near the smallest normal numbers of both types. */
static double random_small(void)
{
	uint64_t bits = random_next();
	double value;

	bits = (bits & ~(0x7ffull << 52)) |
	       (random_below(2) ? random_below(60) : 1023 - 160 + random_below(60)) << 52;
	memcpy(&value, &bits, sizeof(value));
	return value;
}

static double random_number(void)
{
	return random_below(3) == 0 ? random_double() :
	       random_below(5) == 0 ? random_small() :
				      random_near();
}

static int is_float(enum number_type type)
{
	return type == F64 || type == F32;
}

static struct float_node *node_new(struct float_tree *t, char op, enum number_type type)
{
	struct float_node *n = &t->nodes[t->count++];

	memset(n, 0, sizeof(*n));
	n->op = op;
	n->type = type;
	return n;
}

static struct float_node *leaf(struct float_tree *t)
{
	struct float_node *n;

	if (random_below(4) == 0 || t->leaves == FLOAT_LEAVES) {
		n = node_new(t, 'n', (enum number_type)random_below(3));
		do
			n->number = n->type == F32 ? (double)(float)random_number() :
				    n->type == F64 ? random_number() :
						     (double)random_below(1000);
		while (n->number - n->number != 0);
		return n;
	}
	n = node_new(t, 'l', (enum number_type)random_below(4));
	n->at = t->memory + (size_t)8 * t->leaves++;
	return n;
}

/* As C finds it. */
static enum number_type common(enum number_type a, enum number_type b)
{
	if (a == F64 || b == F64)
		return F64;
	if (a == F32 || b == F32)
		return F32;
	return a == U64 || b == U64 ? U64 : S64;
}

static struct float_node *inner(struct float_tree *t, uint32_t depth)
{
	static const char ops[] = "+-*/";

	if (!depth || t->count + 12 > FLOAT_NODES || random_below(6) == 0)
		return leaf(t);
	if (random_below(5) == 0) {
		struct float_node *operand = inner(t, depth - 1);
		struct float_node *n =
			node_new(t, random_below(3) ? 'c' : '~', (enum number_type)random_below(4));

		n->left = operand;
		if (n->op == '~')
			n->type = operand->type;
		return n;
	}
	struct float_node *left = inner(t, depth - 1);
	struct float_node *right = inner(t, depth - 1);
	struct float_node *n = node_new(t, ops[random_below(4)], common(left->type, right->type));

	n->left = left;
	n->right = right;
	return n;
}

void float_tree_random(struct float_tree *t, uint8_t *memory)
{
	t->count = 0;
	t->leaves = 0;
	t->memory = memory;
	struct float_node *n = inner(t, 1 + (uint32_t)random_below(3));
	t->root = n;
	if (is_float(n->type))
		return;
	t->root = node_new(t, 'c', random_below(2) ? F64 : F32);
	t->root->left = n;
}

static void print(const struct float_node *n, char *text, size_t size)
{
	char left[2000] = "";
	char right[2000] = "";

	if (n->left)
		print(n->left, left, sizeof(left));
	if (n->right)
		print(n->right, right, sizeof(right));
	if (n->op == 'l')
		snprintf(text, size, "*(%s *)%#lx", number_type_names[n->type], (unsigned long)n->at);
	else if (n->op == 'n' && n->type == S64)
		snprintf(text, size, "%.0f", n->number);
	else if (n->op == 'n')
		snprintf(text, size, "(%.17e%s)", n->number, n->type == F32 ? "f" : "");
	else if (n->op == 'c')
		snprintf(text, size, "(%s)(%s)", number_type_names[n->type], left);
	else if (n->op == '~')
		snprintf(text, size, "-(%s)", left);
	else
		snprintf(text, size, "(%s %c %s)", left, n->op, right);
}

void float_tree_print(const struct float_tree *t, char *text, size_t size)
{
	print(t->root, text, size);
}

void float_tree_values(const struct float_tree *t)
{
	double last = random_number();

	for (uint32_t i = 0; i < t->count; i++) {
		const struct float_node *n = &t->nodes[i];
		double value = random_below(3) ? random_number() : last;
		const float single = (float)value;
		uint64_t bits = random_interesting();

		last = value;
		if (n->op != 'l')
			continue;
		if (n->type == F64)
			memcpy(&bits, &value, 8);
		else if (n->type == F32)
			memcpy(&bits, &single, 4);
		else if (random_below(2))
			bits = random_next() >> random_below(64);
		memcpy(n->at, &bits, 8);
	}
}

/* What C leaves open is a fault. */
static struct float_value cast(struct float_value v, enum number_type to)
{
	struct float_value out = { .type = to, .fault = v.fault };
	const double wide = v.type == F32 ? v.f32 : v.f64;

	if (to == F64)
		out.f64 = v.type == S64 ? (double)(int64_t)v.whole :
			  v.type == U64 ? (double)v.whole :
					  wide;
	else if (to == F32)
		out.f32 = v.type == S64 ? (float)(int64_t)v.whole :
			  v.type == U64 ? (float)v.whole :
			  v.type == F64 ? (float)v.f64 :
					  v.f32;
	else if (!is_float(v.type))
		out.whole = v.whole;
	else if (to == S64 && wide >= -0x1p63 && wide < 0x1p63)
		out.whole = (uint64_t)(int64_t)wide;
	else if (to == U64 && wide > -1 && wide < 0x1p64)
		out.whole = (uint64_t)wide;
	else
		out.fault = 1;
	return out;
}

static void divide(struct float_value *out, const struct float_value *a,
		   const struct float_value *b)
{
	if (!b->whole)
		out->fault = 1;
	else if (out->type == U64)
		out->whole = a->whole / b->whole;
	else
		out->whole = b->whole == ~0ull ? 0 - a->whole :
						 (uint64_t)((int64_t)a->whole / (int64_t)b->whole);
}

static struct float_value compute(const struct float_node *n, struct float_value a,
				  struct float_value b)
{
	struct float_value out = { .type = n->type };

	a = cast(a, n->type);
	b = cast(b, n->type);
	out.fault = a.fault || b.fault;
	switch (n->op) {
	case '+':
		out.f64 = a.f64 + b.f64;
		out.f32 = a.f32 + b.f32;
		out.whole = a.whole + b.whole;
		break;
	case '-':
		out.f64 = a.f64 - b.f64;
		out.f32 = a.f32 - b.f32;
		out.whole = a.whole - b.whole;
		break;
	case '*':
		out.f64 = a.f64 * b.f64;
		out.f32 = a.f32 * b.f32;
		out.whole = a.whole * b.whole;
		break;
	default:
		out.f64 = a.f64 / b.f64;
		out.f32 = a.f32 / b.f32;
		if (!is_float(n->type))
			divide(&out, &a, &b);
	}
	return out;
}

static struct float_value value(const struct float_node *n)
{
	struct float_value v = { .type = n->type };

	if (n->op == 'l') {
		memcpy(&v.f64, n->at, 8);
		memcpy(&v.f32, n->at, 4);
		memcpy(&v.whole, n->at, 8);
		return v;
	}
	if (n->op == 'n') {
		v.f64 = n->number;
		v.f32 = (float)n->number;
		v.whole = n->type == S64 ? (uint64_t)n->number : 0;
		return v;
	}
	v = value(n->left);
	if (n->op == 'c')
		return cast(v, n->type);
	if (n->op != '~')
		return compute(n, v, value(n->right));
	v.f64 = -v.f64;
	v.f32 = -v.f32;
	v.whole = 0 - v.whole;
	return v;
}

struct float_value float_tree_value(const struct float_tree *t)
{
	return value(t->root);
}
