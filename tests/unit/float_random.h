/* SPDX-License-Identifier: MIT */
/*
 * float_random.h - random arithmetic of floats, doubles and whole numbers: as text for the parser,
 * and computed by C. Nothing is shared with what is tested.
 */
#ifndef TESTS_UNIT_FLOAT_RANDOM_H
#define TESTS_UNIT_FLOAT_RANDOM_H

#include <stddef.h>
#include <stdint.h>

enum number_type { F64, F32, S64, U64 };
extern const char *const number_type_names[];

/* == != < <= > >= */
extern const char *const float_comparisons[];
int float_holds(uint32_t op, long double a, long double b);

/* One side of a comparison, which lies in memory. */
struct side {
	enum number_type type;
	uint8_t *at;
};

void side_set(const struct side *side, double value);
long double side_value(const struct side *side);

/* Around 0, whole numbers, the smallest and largest, and NaN. */
double random_double(void);

#define FLOAT_NODES 24
#define FLOAT_LEAVES 12

struct float_value {
	enum number_type type;
	int fault; /* a conversion that C leaves open, or a whole number divided by 0 */
	double f64;
	float f32;
	uint64_t whole;
};

struct float_node {
	char op; /* l load, n number, c cast, - + * / or ~ for a minus sign */
	enum number_type type;
	struct float_node *left;
	struct float_node *right;
	uint8_t *at;
	double number;
};

struct float_tree {
	struct float_node nodes[FLOAT_NODES];
	uint32_t count;
	uint8_t *memory; /* 8 * FLOAT_LEAVES bytes that it loads from */
	uint32_t leaves;
	struct float_node *root; /* a float or double */
};

void float_tree_random(struct float_tree *t, uint8_t *memory);
void float_tree_print(const struct float_tree *t, char *text, size_t size);
/* Other numbers in memory. */
void float_tree_values(const struct float_tree *t);
struct float_value float_tree_value(const struct float_tree *t);

#endif
