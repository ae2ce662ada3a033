/* SPDX-License-Identifier: MIT */
/*
 * linkage.h - the names by which the objects of a process call each other: which name a word of a
 * linkage table has, and where an object defines a name. Not for handlers.
 *
 * All of it is read from the memory of the process, whose objects may be closed at any moment, and
 * whose tables may have any content.
 */
#ifndef CODE_REACH_LINKAGE_H
#define CODE_REACH_LINKAGE_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

#include "base/table_size.h"

#define LINKAGE_OBJECTS TABLE_SIZE(256u, 6u)
#define LINKAGE_NAME_MAX 512u

struct linkage_slot {
	uint64_t address;
	uint64_t symbol; /* its number */
};

/* A table of relocations. */
struct linkage_table {
	uint64_t at;
	uint64_t bytes;
};

/* A program or library. */
struct linkage_object {
	uint64_t start;
	uint64_t end;
	uint64_t text_start;
	uint64_t text_end;
	uint64_t bias;
	uint64_t dynamic; /* 0: none */
	/* Read when it is asked for: */
	uint32_t is_read;
	uint32_t is_unreadable; /* any word may have any name */
	uint64_t symbols;
	uint64_t names;
	uint64_t name_bytes;
	uint64_t gnu_hash; /* 0: none */
	uint64_t hash;	   /* of the older form */
	struct linkage_table tables[2];
	uint64_t unnamed; /* rows at the beginning of the second */
	uint64_t slot_count;
	struct linkage_slot *slots;
};

struct linkage_memory {
	/* Copies memory: 1, or 0 if not all of it is there. */
	int (*copy)(void *arg, uint64_t address, void *to, size_t n);
	void *arg;
};

struct linkage {
	struct linkage_memory memory;
	uint32_t count;
	uint32_t is_full; /* there are more objects */
	struct linkage_object objects[LINKAGE_OBJECTS];
};

enum linkage_definition {
	LINKAGE_NONE,
	LINKAGE_FUNCTION,
	LINKAGE_CHOOSER, /* a function that returns the address of the function (STT_GNU_IFUNC) */
};

/* Takes the bounds of an object, whose bias is there, from one of its program headers. */
void linkage_header(struct linkage_object *o, const Elf64_Phdr *p);
/* In the order in which the loader looks for a name. Those without a dynamic section too. */
void linkage_add(struct linkage *l, const struct linkage_object *object);
/* Forget all objects. */
void linkage_clear(struct linkage *l);
/* NULL: none has the address. */
struct linkage_object *linkage_at(struct linkage *l, uint64_t address);
/* 1: the loader fills the word by this name. 0: it has no name. -errno: that cannot be read. */
int linkage_name(struct linkage *l, struct linkage_object *object, uint64_t word,
		 char name[LINKAGE_NAME_MAX]);
/*
 * Calls a function for each word that the loader fills by a name, with the type of the symbol
 * (STT_FUNC), until it returns an error. 0, that error, or -errno. The object is not part of a
 * struct linkage; what was read of it is forgotten.
 */
int linkage_each_name(const struct linkage_memory *m, struct linkage_object *object,
		      int (*each)(void *arg, uint64_t word, const char *name, unsigned int type),
		      void *arg);
/* Where the object defines a function of that name, for others too. */
enum linkage_definition linkage_find(struct linkage *l, struct linkage_object *object,
				     const char *name, uint64_t *address);

#endif
