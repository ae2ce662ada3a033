/* SPDX-License-Identifier: MIT */
/*
 * finding_json.h - what the findings of all tools have in JSON, under the same names: races, errors
 * of the heap, flows, deaths, failures. trapline-json(7) describes them.
 */
#ifndef REPORT_FINDING_FINDING_JSON_H
#define REPORT_FINDING_FINDING_JSON_H

#include "report/run/run.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The first members of each. */
struct finding {
	const char *type;
	const char *kind;
	const char *grade; /* NULL: this type has no grades */
	const char *fingerprint;
	uint64_t count;
	pid_t pid;	  /* 0: not known */
	uint64_t time_ns; /* CLOCK_MONOTONIC; 0: not known */
};

/* What one thread did: an access, a call, the moment of its death. What is empty is not known. */
struct finding_moment {
	pid_t tid;
	const char *thread;
	uint64_t time_ns;
	const char *function;
	const struct place *place; /* of the rest of the location */
	const char *module_path;   /* of the object that has the code */
	const char *via;	   /* the function of a library that was called there */
	const struct run_frame *frames;
	size_t frame_count;
};

json_t *finding_json(const struct finding *f);
/* Adds the members of a moment; those that only one tool has are there before. */
void finding_json_moment(json_t *j, const struct finding_moment *m);
/*
 * A block of memory. address: 0, not known. offset: of the finding in it. The two moments are
 * taken; NULL: not known, or it is not freed.
 */
json_t *finding_json_block(uint64_t address, uint64_t size, int64_t offset, json_t *allocated,
			   json_t *freed);

/*
 * The code that a finding is about: its first moment. Where no access was seen, as of a block that
 * is found damaged, the allocation of the block. NULL: neither is known. Of `finding`.
 */
const json_t *finding_json_place(const json_t *finding, bool *is_allocation);

/* null for an empty text too. */
json_t *finding_json_text(const char *text);

#endif
