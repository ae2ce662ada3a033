/* SPDX-License-Identifier: MIT */
/*
 * point.h - one point: what is observed, in processes of which name, and where its lines go.
 *
 * A client writes it once as a file of JSON, and it never changes after that. What became of it is
 * in its status, which the collector alone writes.
 */
#ifndef CLI_POINT_POINT_H
#define CLI_POINT_POINT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define POINT_COMMAND "point"
#define POINT_TEXT_MAX 2000
#define POINT_REASON_BYTES 400

/* The texts are those of json. */
struct point {
	json_t *json; /* NULL: empty */
	uint64_t id;
	const char *name; /* of the processes */
	const char *location;
	const char *print;     /* NULL: the line of the call */
	const char *condition; /* NULL: each hit */
	const char *budget;    /* as in --budget; NULL: the default */
	const char *to;	       /* NULL: the file of the collector */
	bool args;
	bool ret;
	bool stack;
	uint64_t rate; /* lines in rate_ns; 0: all */
	uint64_t rate_ns;
	double added;	/* seconds of the epoch */
	double expires; /* 0: never */
	json_t *redact; /* an array of names; NULL: none */
};

enum point_state {
	POINT_WAITS,   /* for a process of the name */
	POINT_ARMING,  /* the child reads the program */
	POINT_ARMED,   /* in the processes of now and in those to come */
	POINT_REFUSED, /* with a reason; tried again in a new process */
	POINT_STATES,
};

/* hits = sent + suppressed + failed, of the lines that arrived at the collector. */
struct point_status {
	enum point_state state;
	uint64_t hits;
	uint64_t sent;
	uint64_t suppressed; /* by --rate */
	uint64_t failed;     /* the receiver did not take the line */
	uint64_t lost;	     /* before they arrived */
	uint64_t broken;     /* children that ended by themselves */
	uint64_t processes;
	char reason[POINT_REASON_BYTES]; /* of a refusal, or of the last failure */
};

/* json of a point without id, which the store adds. NULL: no memory. */
json_t *point_to_json(const struct point *p);
/* Takes json over. 0, or -1 with why and json released. */
int point_from_json(json_t *json, struct point *out, char *why, size_t n);
void point_free(struct point *p);

const char *point_state_name(enum point_state state);
json_t *point_status_to_json(const struct point_status *s);
void point_status_from_json(const json_t *json, struct point_status *out);

/* `10/s`, `100/m`, `5/h`, or a number a second. 0 or -1. */
int point_rate_read(const char *text, uint64_t *count, uint64_t *ns);

#endif
