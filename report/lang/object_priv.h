/* SPDX-License-Identifier: MIT */
/* object_priv.h - what object.c and object_collection.c share. */
#ifndef REPORT_LANG_OBJECT_PRIV_H
#define REPORT_LANG_OBJECT_PRIV_H

#include "report/lang/collection.h"
#include "report/lang/object.h"

#define OBJECT_SHOWN_MAX 8 /* elements of a sequence */

#define OBJECT_LENGTH_MAX (UINT64_C(1) << 47) /* bytes that a process can have */

struct writer {
	struct object *o;
	char *buf;
	size_t n;
	size_t used;
};

__attribute__((format(printf, 2, 3))) void object_put(struct writer *w, const char *format, ...);

/* States why bytes are not known; false: they are. */
bool object_put_unknown(struct writer *w, uint64_t offset, uint64_t size);

uint64_t object_number_at(const struct object *o, uint64_t offset, uint64_t size);

/* A value inside of the object, or at an address. False: there is no memory. */
void object_write(struct writer *w, const struct type *t, uint64_t offset, unsigned int depth);
bool object_write_elsewhere(struct writer *w, const struct type *t, uint64_t address,
			    unsigned int depth);

void object_write_collection(struct writer *w, const struct collection *c, const struct type *t,
			     uint64_t offset, unsigned int depth);

#endif
