/* SPDX-License-Identifier: MIT */
/*
 * collection.h - types of standard libraries that a pointer and a length do not describe: maps,
 * lists, optional, variant, tuple, atomic.
 *
 * All offsets are those of members in debug information. A type whose members have other names is
 * not recognised, and is printed by its members.
 */
#ifndef REPORT_LANG_COLLECTION_H
#define REPORT_LANG_COLLECTION_H

#include "report/dwarf/types.h"

enum collection_kind {
	COLLECTION_COUNT,    /* only the number of its elements is read */
	COLLECTION_CHAIN,    /* nodes, each with a pointer to the next */
	COLLECTION_TREE,     /* nodes in order */
	COLLECTION_OPTIONAL, /* engaged, or nothing */
	COLLECTION_VARIANT,  /* one of several types, by an index */
	COLLECTION_TUPLE,
	COLLECTION_INNER, /* a value in a wrapper: std::atomic */
};

struct collection {
	enum collection_kind kind;
	bool is_list;		  /* its elements have an order of their own: written in [] */
	const struct type *count; /* of the number of elements, of the index, of engaged */
	uint64_t count_at;
	const struct type *value; /* an element, or what is inside */
	uint64_t value_at;	  /* in a node, or in the whole */
	uint64_t first_at;	  /* the pointer to the first node */
	uint64_t root_at;	  /* the pointer to the root of a tree */
	uint64_t next_at;	  /* in a node */
	uint64_t left_at;
	uint64_t right_at;
	uint64_t parent_at;
	const struct type *alternatives; /* of a variant: a union of the first and the rest */
	uint64_t alternatives_at;
};

/* Those of libstdc++; the numbers of elements of libc++, Rust and Go. */
bool collection_of(const struct type *t, struct collection *out);

/* One alternative of a variant. False: it has no such number. */
bool collection_alternative(const struct collection *c, uint64_t index, const struct type **type,
			    uint64_t *offset);

#define COLLECTION_TUPLE_MAX 16

/* The elements of a tuple, in order. Returns their number; 0: they are not known. */
size_t collection_tuple(const struct type *t, struct type_place out[COLLECTION_TUPLE_MAX]);

#endif
