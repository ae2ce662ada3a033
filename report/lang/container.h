/* SPDX-License-Identifier: MIT */
/*
 * container.h - types of standard libraries that keep their contents elsewhere: strings, vectors
 * and slices, smart pointers. They are known by their members, which differ between
 * implementations. collection.h has those that are more than a pointer and a length.
 */
#ifndef REPORT_LANG_CONTAINER_H
#define REPORT_LANG_CONTAINER_H

#include "report/dwarf/types.h"

enum container_kind {
	CONTAINER_TEXT,
	CONTAINER_SEQUENCE,
	CONTAINER_POINTER,
	CONTAINER_ARRAY, /* its elements are inside: std::array */
};

struct container {
	enum container_kind kind;
	const struct type *element;
	uint64_t data;	 /* offset of the pointer to the elements, or of the array */
	uint64_t length; /* offset of their number, 8 bytes, or of the pointer behind the last */
	bool is_end;	 /* length is that of a pointer */
	bool has_nul;	 /* a text with a NUL behind it: std::string */
};

/*
 * std::vector, array, string, unique_ptr, shared_ptr of libstdc++ and libc++; those of Rust and Go;
 * QString, QByteArray and QList of Qt 6.
 */
bool container_of(const struct type *t, struct container *out);

#endif
