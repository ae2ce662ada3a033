/* SPDX-License-Identifier: MIT */
/*
 * condition_random.h - random conditions as trees: printed as text for the parser, and evaluated
 * here in the plainest way, by walking the tree. Nothing is shared with what is tested.
 */
#ifndef TESTS_UNIT_CONDITION_RANDOM_H
#define TESTS_UNIT_CONDITION_RANDOM_H

#include <stddef.h>
#include <stdint.h>

#define REGISTERS 17
#define ARENA_BYTES 4096

/* What a condition can see. One struct, so that an eBPF program finds it all in one map. */
struct state {
	uint64_t regs[REGISTERS]; /* by DWARF number */
	uint64_t addr;
	uint64_t zero;
	uint64_t new_value;
	uint64_t old_value;
	uint64_t hits;
	uint64_t hits_in_thread;
	uint64_t count; /* of the event that count(other) names */
};

struct world {
	const struct state *state;
	const uint8_t *arena; /* ARENA_BYTES that can be read, between pages that cannot */
	int pid;
	int tid;
	int cpu;
	const char *thread;
};

struct value {
	uint64_t number;
	int is_signed;
	int fault;
};

struct node;

void random_seed(uint64_t seed);
uint64_t random_next(void);
uint64_t random_below(uint64_t n);
uint64_t random_interesting(void);

/* A tree of about `size` operators; the arena's address goes into the text. */
struct node *node_random(uint32_t size, const uint8_t *arena);
void node_free(struct node *n);
void node_print(const struct node *n, char *text, size_t size);
struct value node_value(const struct node *n, const struct world *w);

/* 1 when an evaluation since the last call read memory that is not the arena's. */
int node_strayed(void);

#endif
