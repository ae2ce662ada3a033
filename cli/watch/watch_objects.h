/* SPDX-License-Identifier: MIT */
/*
 * watch_objects.h - objects that a function gets or returns, each watched while it lives.
 *
 * A breakpoint on the function reports each call (see trapline_break_sites()). A new object gets
 * one of the free debug registers, in all threads. Another breakpoint reports its end. Accesses
 * before the register is armed are not seen; the summary reports how long that took.
 */
#ifndef WATCH_OBJECTS_H
#define WATCH_OBJECTS_H

#include "cli/observe/session.h"
#include "cli/watch/watch_hit.h"
#include "cli/watch/watch_slots.h"
#include "cli/watch/watch_stall.h"
#include "report/code/code_sites.h"
#include "report/code/unwinders.h"
#include "report/lang/signature.h"
#include "report/run/run_watch.h"

/* The path from a call at a site to an object, and to the watched part of it. */
struct object_way {
	uint8_t reg; /* DWARF number; its value, and add, is the object */
	int64_t add;
	bool is_anew;	  /* a frame at this address has ended when another begins there */
	bool is_left_out; /* an inlined copy that does not have it in a register */
	struct expression_path path;
};

/* A function that gives objects, or ends them. */
struct object_point {
	char where[200];
	bool is_return;
	struct code_sites sites;
	struct object_way *way; /* by index of sites */
	struct trapline_event *event;
	uint64_t calls;
	uint64_t left; /* calls that ended with a jump, so that the result is not known */
};

struct object {
	uint64_t pointer;
	uint64_t born_ns;
	uint64_t address;    /* of the watched part */
	uint64_t watched_ns; /* before armed_ns */
	uint64_t armed_ns;   /* 0: it has no register now */
	size_t slot;	     /* while armed */
	const struct object_way *way;
	bool was_watched;
	bool is_stalled;     /* its thread waits for the register */
	bool is_doubtful;    /* a frame that may have been left without a return */
	pid_t tid;	     /* that made the call */
	uint64_t batch;	     /* in which it was found; 0: no register was free */
	struct object *next; /* in the queue for a register, the oldest first */
	struct object *before;
	bool waits;
};

#define OBJECTS_MAX (1u << 18) /* known at a time */
#define DELAYS_MAX (1u << 16)  /* of which the median is taken */

#define UNWINDERS_MAX 64

/* for FUNC:VARIABLE; see watch_frames.h. */
struct object_frames {
	bool are; /* the objects are frames */
	struct object_point returns;
	struct unwinder unwinder[UNWINDERS_MAX];
	size_t unwinder_count;
	struct trapline_event *unwinding;
	uint64_t lost; /* records, when they were counted last */
};

struct watch_objects {
	const struct observe_settings *set;
	struct symbols *symbols;
	struct object_point at;
	struct object_point until;
	struct object_frames frames;
	struct watch_expr expr; /* of the object that was hit last */
	char name[32];
	struct watch_slots slots;
	struct object *holder[WATCH_REGISTERS];
	bool is_resting[WATCH_REGISTERS];
	uint64_t batch;	 /* of calls that are read before registers are assigned */
	uint64_t lag_ns; /* age of the last call when it was read */
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
	struct watch_stall *stall; /* NULL: threads are not stalled */
	uint64_t started_ns;
};

/* Looks up --from, --until and EXPR, and sets o->expr. 0 or an exit status, line printed. */
int watch_objects_find(struct watch_objects *o, struct symbols *s,
		       const struct observe_settings *set);
/* Arms the breakpoints and the registers; opts are those of the hits. 0 or an exit status. */
int watch_objects_arm(struct watch_objects *o, struct trapline *t, const struct session *session,
		      const struct trapline_event_opts *opts);
/* Takes a record. False: it was a call, or a hit to be rejected. True: *which states whose hit. */
bool watch_objects_hit(struct watch_objects *o, const struct trapline_hit *hit,
		       struct watch_which *which);
/* Returns the ms until the next call is needed. */
int watch_objects_tick(struct watch_objects *o);
/* Gives free registers to objects that have none. False: calls are read too late for that. */
bool watch_objects_fill(struct watch_objects *o);

/*
 * Prepares stalling; opts of the event at the calls get the signal. A note is printed if it cannot
 * be.
 */
void watch_objects_stall(struct watch_objects *o, const struct session *session,
			 struct trapline_event_opts *opts);
/* From here on threads are stalled. */
void watch_objects_stall_start(struct watch_objects *o, struct session *session);
/* Instead of trapline_poll(). */
int watch_objects_poll(struct watch_objects *o, struct session *session, struct trapline *t,
		       int timeout_ms, trapline_callback fn);

/* Ends an object: its register is free again. */
void watch_objects_ended(struct watch_objects *o, struct object *object, uint64_t end_ns);
/* Records of calls and ends that were lost so far. */
uint64_t watch_objects_lost(const struct watch_objects *o);

/* Sums up while the events are still open; o must live as long as *end. */
void watch_objects_end(struct watch_objects *o, struct run_end *end);
void watch_objects_release(struct watch_objects *o);

#endif
