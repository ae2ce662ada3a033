/* SPDX-License-Identifier: MIT */
/* at_each.h - `trapline at --each`: a signal at each occurrence of a location, one run for each. */
#ifndef AT_EACH_H
#define AT_EACH_H

#include <stdint.h>
#include <stdio.h>

/* What was not given. */
#define AT_EACH_DEFAULT UINT64_MAX

struct at_each {
	const char *location; /* with ` if COND` or without; NULL: --each is not given */
	const char *signal;
	const char *check;
	uint64_t limit; /* of occurrences */
	uint64_t jobs;
	uint64_t timeout_ns;
	int json;
	int verbose;
	const char *output; /* NULL: stdout */
	char **command;
};

/* Returns the exit status. */
int at_each(struct at_each *each);

#endif
