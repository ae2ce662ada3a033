/* SPDX-License-Identifier: MIT */
/* near.h - names that resemble a mistyped one. */
#ifndef REPORT_DWARF_NEAR_H
#define REPORT_DWARF_NEAR_H

#include <stdbool.h>
#include <stddef.h>

/* The score of a name that does not resemble the other. */
#define NEAR_NOT 1000u

/*
 * How far a candidate is from a mistyped name. 0 is equal except for upper and lower case. Typing
 * errors count one each, and a candidate that contains the whole name is near too.
 */
unsigned int near_score(const char *wanted, const char *candidate);

#define NEAR_NAMES_MAX 8

/* The best candidates so far, best first; an equal one that came first stays first. */
struct near_list {
	const char *wanted;
	const char **names; /* of the caller, which keeps the strings alive; max of them */
	size_t max;	    /* NEAR_NAMES_MAX at most */
	size_t count;
	unsigned int scores[NEAR_NAMES_MAX];
};

/* Takes candidate if it is near enough, another name, and new. True: the list contains it now. */
bool near_add(struct near_list *list, const char *candidate);

/* `; did you mean a, b, c?`, or nothing. */
void near_question(const struct near_list *list, char *buf, size_t n);

#endif
