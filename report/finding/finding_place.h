/* SPDX-License-Identifier: MIT */
/*
 * finding_place.h - where a finding is reported: at the innermost function that the user wrote
 * (headline.h has the rule), with the function of a library that was called there.
 */
#ifndef REPORT_FINDING_FINDING_PLACE_H
#define REPORT_FINDING_FINDING_PLACE_H

#include "base/hash.h"
#include "report/files/file_places.h"
#include "report/finding/finding_json.h"

#include <stdbool.h>

struct finding_place {
	uint64_t at;   /* 0: not known */
	bool is_after; /* it is behind the instruction */
	bool is_call;  /* of a function that is inlined there: the line is that of the call */
	struct place place;
	/* without what compilers add to the name of a variant; empty: not known */
	char function[256];
	char via[64]; /* empty: none */
};

/*
 * frames: innermost first. is_access: the first one is the instruction itself. n may be 0; *out is
 * zeroed before.
 */
void finding_place_find(struct file_places *places, const uint64_t *frames, size_t n,
			bool is_access, struct finding_place *out);
/* Where the source is, with its folder; empty: not known. */
void finding_place_source(struct file_places *places, const struct finding_place *p, char *path,
			  size_t n);

/*
 * The frames as they are printed, with the functions inlined there, and without those of Trapline's
 * own objects.
 */
size_t finding_frames(struct file_places *places, const uint64_t *frames, size_t n, bool is_access,
		      struct run_frame *out, size_t most);

/* What is between the program and libc, such as the operator new of Trapline and its malloc(). */
bool finding_is_of_trapline(const char *module);

/* A text and its end: the hash begins with HASH_START. */
uint64_t finding_hash(uint64_t hash, const char *text);
/* The line counts from the function's first one: it stays when code above it changes. */
uint64_t finding_hash_place(uint64_t hash, const struct finding_place *p);
void finding_fingerprint(uint64_t hash, char out[20]);

#endif
