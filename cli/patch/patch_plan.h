/* SPDX-License-Identifier: MIT */
/*
 * patch_plan.h - what would be replaced in a process, and whether it can be: decided outside of it.
 */
#ifndef CLI_PATCH_PATCH_PLAN_H
#define CLI_PATCH_PATCH_PLAN_H

#include "cli/patch/patch_settings.h"
#include "report/patch/patch_find.h"
#include "report/patch/patch_object.h"

struct patch_step {
	const struct patch_record *record;
	struct patch_found found;	  /* address 0: the record names nothing of the process */
	char where[300];		  /* `server at main.c:12` */
	const char *by;			  /* the new function; NULL: it has no name */
	uint64_t new_size;		  /* of it; 0: not known */
	struct patch_found_part new_part; /* size 0: it has none */
};

struct patch_plan {
	struct patch_object *object;
	struct patch_step *steps; /* one for each record, in their order */
	size_t count;
	bool is_apart; /* the file of the object is without its initializers, which are here */
	struct patch_init init;
	size_t functions; /* how many steps replace a function */
};

/* 0 or an exit status, line printed. */
int patch_plan_make(const struct patch_settings *set, struct symbols *s, struct patch_plan *out);
void patch_plan_free(struct patch_plan *plan);

#endif
