/* SPDX-License-Identifier: MIT */
/*
 * headline.h - which function of a stack a headline names: the innermost one that the user wrote.
 *
 * The libraries of the system are not the user's, and neither is code of a toolchain's headers and
 * libraries, which compilers put into the functions that use it.
 */
#ifndef REPORT_FILES_HEADLINE_H
#define REPORT_FILES_HEADLINE_H

#include "report/files/file_places.h"

/* Did the user write it? true also where that is not known. */
bool headline_is_written(const struct place *p);

struct headline {
	size_t frame; /* which of the frames it is in */
	struct place place;
	bool is_call; /* its line is that of a call, whose function is inlined there */
};

/*
 * The frame of a stack that the headline names; frames are innermost first. Where the user wrote
 * none of them it is the first that is not in a library of the system, or else the first of all.
 * is_access: the first one is the instruction itself, not a return address. n is not 0.
 */
void headline_find(struct file_places *p, const uint64_t *frames, size_t n, bool is_access,
		   struct headline *out);

#endif
