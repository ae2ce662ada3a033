/* SPDX-License-Identifier: MIT */
/*
 * watch_frames.h - FUNC:VARIABLE, a variable on the stack: each frame of the function is an object.
 *
 * A frame is known by its canonical address (CFA). It begins where the variable begins to exist,
 * and ends at the return of the function or where the thread leaves the variable's block. After
 * longjmp, an exception or the end of a thread its frames are in doubt: no hit of such a frame is
 * reported.
 */
#ifndef WATCH_FRAMES_H
#define WATCH_FRAMES_H

#include "cli/watch/watch_objects.h"

/* The function and the name of e when it is FUNC:VARIABLE of this target; false: it is not. */
bool watch_frames_named(struct symbols *s, const struct expression *e, const char **function,
			const char **name);
/* Instead of watch_objects_find(). 0 or an exit status, line printed. */
int watch_frames_find(struct watch_objects *o, struct symbols *s,
		      const struct observe_settings *set);
/* Arms what follows unwinding. 0 or -errno. */
int watch_frames_arm(struct watch_objects *o, struct trapline *t,
		     const struct trapline_event_opts *opts);
/* The CFA of the frame that a call or an exit means; false: it means none. */
bool watch_frames_pointer(const struct object_point *p, const struct trapline_hit *hit,
			  const struct object_way *way, uint64_t *cfa);
/* A record of unwinding. */
void watch_frames_unwinds(struct watch_objects *o, const struct trapline_hit *hit);
/* The frame begins: those below it that are in doubt have ended. */
void watch_frames_begins(struct watch_objects *o, const struct trapline_hit *hit, uint64_t cfa);
/* The frame existed at this hit. */
bool watch_frames_accepts(struct watch_objects *o, const struct object *frame,
			  const struct trapline_hit *hit);

#endif
