/* SPDX-License-Identifier: MIT */
/*
 * watch_objects.h - objects that a function is given or returns, each watched while it lives.
 *
 * A probe on the function tells of each call (see trapline_break_sites()). A new object gets one of
 * the free debug registers, from all threads at once; another probe tells of its end. What happens
 * to an object before its register is armed is not seen: how long that took is in the summary.
 */
#ifndef CLI_WATCH_OBJECTS_H
#define CLI_WATCH_OBJECTS_H

#include "cli/session.h"
#include "cli/watch.h"
#include "cli/watch_slots.h"
#include "report/code_sites.h"
#include "report/run_watch.h"
#include "report/signature.h"

/* From a hit at a site to an object, and to what is watched of it. */
struct object_way {
	uint8_t reg;	  /* DWARF number; its value is the object */
	bool is_left_out; /* an inlined copy where that is in no register */
	struct expression_path path;
};

/* A function that objects come through, or end in. */
struct object_point {
	char where[200];
	bool is_return;
	struct code_sites sites;
	struct object_way *way; /* by index of sites */
	struct trapline_event *event;
	uint64_t calls;
};

struct object {
	uint64_t pointer;
	uint64_t born_ns;
	uint64_t address;    /* of what is watched */
	uint64_t watched_ns; /* before armed_ns */
	uint64_t armed_ns;   /* 0: it has no register now */
	size_t slot;	     /* while armed */
	const struct object_way *way;
	bool was_watched;
	uint64_t batch; /* in which it was found; 0: when no register was free */
	struct object *next; /* of those that wait for a register, the longest first */
	struct object *before;
	bool waits;
};

#define OBJECTS_MAX (1u << 18) /* known at a time */
#define DELAYS_MAX (1u << 16)  /* of which the median is taken */

struct watch_objects {
	const struct watch_settings *set;
	struct symbols *symbols;
	struct object_point at;
	struct object_point until;
	struct watch_what what; /* of the object that is told of */
	char name[32];
	struct watch_slots slots;
	struct object *holder[WATCH_REGISTERS];
	bool is_resting[WATCH_REGISTERS];
	uint64_t batch; /* of calls that are looked at before registers are given out */
	uint64_t lag_ns; /* age of the call that was looked at last */
	size_t next_slot;
	void *known; /* tsearch() tree of struct object */
	size_t known_count;
	struct object *first_waiting;
	struct object *last_waiting;
	uint64_t next_turn_ns;
	uint64_t next_look_ns;
	uint32_t *delays_ns;
	size_t delay_count;
	struct run_objects counts;
};

/* Looks everything up; o->what is what is watched of an object. 0 or an exit status, line printed. */
int watch_objects_find(struct watch_objects *o, struct symbols *s,
		       const struct watch_settings *set);
/* 0 or an exit status, line printed. opts: of the hits. */
int watch_objects_arm(struct watch_objects *o, struct trapline *t,
		      const struct session *session,
		      const struct trapline_event_opts *opts);
/* A record: of a call, which is dealt with, or a hit, of which *which is made. False: no hit. */
bool watch_objects_hit(struct watch_objects *o, const struct trapline_hit *hit,
		       struct watch_which *which);
/* In how many ms it is to be called again. */
int watch_objects_tick(struct watch_objects *o);
/* The end of the run, while the events are still there; o must live as long as *end. */
void watch_objects_end(struct watch_objects *o, struct run_end *end);
void watch_objects_release(struct watch_objects *o);

#endif
