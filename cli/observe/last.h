/* SPDX-License-Identifier: MIT */
/*
 * last.h - --last: the lines of the last hits are kept in memory and printed when the run ends,
 * which --until-hit makes happen at a location in the code.
 */
#ifndef CLI_OBSERVE_LAST_H
#define CLI_OBSERVE_LAST_H

#include "cli/output.h"
#include "report/dwarf/symbols.h"

#include <trapline/condition.h>
#include <trapline/trapline.h>

#define LAST_MAX 1000000
#define LAST_BYTES_MAX ((size_t)64 << 20)

struct last_lines {
	char *text; /* NULL: none */
	size_t text_size;
	char *json;
	size_t json_size;
};

struct last {
	size_t max; /* 0: --last is not given */
	struct last_lines *lines;
	size_t first; /* the oldest */
	size_t count;
	size_t bytes;
	/* While a hit is printed: */
	FILE *text;
	FILE *json;
	struct last_lines now;
	/* --until-hit: */
	struct trapline_event *until; /* NULL: none */
	struct trapline_condition *condition;
};

/* 0 or an exit status, line printed. */
int last_begin(struct last *l, const char *command, uint64_t max);

/* Arms an event that has one hit, at `LOCATION [if COND]`. 0 or an exit status, line printed. */
int last_arm_until(struct last *l, const char *command, struct symbols *s, struct trapline *target,
		   const char *place, void *arg);

/* Between these two, what is written to the outputs is kept. */
void last_open(struct last *l, struct output *to);
void last_keep(struct last *l, struct output *to);
/* All that is kept, to the outputs. */
void last_print(const struct last *l, struct output *to);
void last_free(struct last *l);

#endif
