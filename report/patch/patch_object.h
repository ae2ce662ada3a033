/* SPDX-License-Identifier: MIT */
/*
 * patch_object.h - a shared object with replacements of functions, read from its file.
 *
 * Its records are in the section `trapline_patch` (<trapline/tools.h>). Nothing of it runs here:
 * the pointers of the records are made from its relocations.
 */
#ifndef REPORT_PATCH_PATCH_OBJECT_H
#define REPORT_PATCH_PATCH_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/patch/patch_init.h"

#define PATCH_OBJECT_BYTES_MAX (256u << 20)
#define PATCH_OBJECT_NAME_MAX 63

/* A record; the kinds are those of <trapline/tools.h>. */
struct patch_record {
	uint32_t kind;
	const char *name; /* cleaned; NULL: it has none */
	const char *text; /* likewise */
	uint64_t target;  /* what its address leads to, in the object; 0: nothing */
	const char
		*target_is; /* the name by which the loader binds it, which others may define too */
};

struct patch_object;

/* 0, or -errno with a reason in why, one line. */
int patch_object_open(const char *path, struct patch_object **out, char *why, size_t n);
void patch_object_close(struct patch_object *o);

/* The name of the file, no folders. */
const char *patch_object_name(const struct patch_object *o);
/* A file without a name, with the bytes that were read, open to be read; of the object. */
int patch_object_fd(const struct patch_object *o);
/*
 * The loader runs no initializer of that file any more, and they are in init. 0; or -errno, and it
 * is as before.
 */
int patch_object_take_init(struct patch_object *o, struct patch_init *init);
/* Where the records are when it is loaded, counted from the begin of the object. */
uint64_t patch_object_section(const struct patch_object *o, uint64_t *bytes);
size_t patch_object_count(const struct patch_object *o);
const struct patch_record *patch_object_record(const struct patch_object *o, size_t i);

/* The function that begins at an address of the object. false: its symbol was removed. */
bool patch_object_function(const struct patch_object *o, uint64_t address, const char **name,
			   uint64_t *bytes);
/* What lies apart from a function, as `name.cold`. false: nothing does. */
bool patch_object_part(const struct patch_object *o, const char *name, uint64_t *address,
		       uint64_t *bytes);

/* What it takes from other objects, and must be there. NULL: no more. */
const char *patch_object_undefined(const struct patch_object *o, size_t i);
/* The names of the objects that are loaded with it. NULL: no more. */
const char *patch_object_needed(const struct patch_object *o, size_t i);

#endif
