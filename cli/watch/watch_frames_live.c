/* SPDX-License-Identifier: MIT */
/* watch_frames_live.c - see watch_frames.h: which frames exist, by the records of a run. */
#include "base/clock.h"
#include "cli/watch/watch_frames.h"

#include <errno.h>
#include <search.h>
#include <signal.h>
#include <stdlib.h>

#define SP_REGISTER 7
#define RETURN_BYTES 8
#define ENDED_MAX 64 /* at a time */

int watch_frames_arm(struct watch_objects *o, struct trapline *t,
		     const struct trapline_event_opts *opts)
{
	uint64_t addresses[UNWINDERS_MAX];

	for (size_t i = 0; i < o->frames.unwinder_count; i++)
		addresses[i] = o->frames.unwinder[i].address;
	if (!o->frames.unwinder_count)
		return 0;
	int err = trapline_break_sites(t, addresses, o->frames.unwinder_count, opts,
				       &o->frames.unwinding);
	return err < 0 ? err : 0;
}

bool watch_frames_pointer(const struct object_point *p, const struct trapline_hit *hit,
			  const struct object_way *way, uint64_t *cfa)
{
	uint64_t base;

	if (p->is_return) {
		/*
		 * After the return the stack pointer is the CFA; before a jump to another function,
		 * below.
		 */
		*cfa = hit->sp + (hit->returned == TRAPLINE_LEFT ? RETURN_BYTES : 0);
		return hit->returned != 0;
	}
	if (trapline_hit_register(hit, way->reg, &base))
		return false;
	*cfa = base + (uint64_t)way->add;
	return true;
}

struct sweep {
	pid_t tid; /* of this thread; 0: of all but `not_tid` */
	pid_t not_tid;
	uint64_t below; /* frames that end: their CFA is at most this */
	bool ends;
	bool only_doubtful;
	bool clears;
	struct object *ended[ENDED_MAX];
	size_t count;
};

static void sweep_one(const void *node, VISIT which, void *arg)
{
	struct sweep *s = arg;

	if (which != postorder && which != leaf)
		return;
	struct object *frame = *(struct object *const *)node;
	if (s->tid ? frame->tid != s->tid : frame->tid == s->not_tid)
		return;
	if (s->only_doubtful && !frame->is_doubtful)
		return;
	if (s->ends && frame->pointer <= s->below) {
		if (s->count < ENDED_MAX)
			s->ended[s->count++] = frame;
	} else if (s->ends && s->clears) {
		frame->is_doubtful = false;
	} else if (!s->ends) {
		frame->is_doubtful = true;
	}
}

static void sweep(struct watch_objects *o, struct sweep *s, uint64_t now_ns)
{
	do {
		s->count = 0;
		twalk_r(o->known, sweep_one, s);
		for (size_t i = 0; i < s->count; i++) {
			o->counts.ended++;
			watch_objects_ended(o, s->ended[i], now_ns);
		}
	} while (s->count == ENDED_MAX);
}

void watch_frames_unwinds(struct watch_objects *o, const struct trapline_hit *hit)
{
	size_t i = 0;

	while (i + 1 < o->frames.unwinder_count && o->frames.unwinder[i].address != hit->address)
		i++;
	struct sweep s = { .tid = hit->tid };
	if (o->frames.unwinder[i].kind == UNWINDER_OTHER) {
		s = (struct sweep){ .not_tid = hit->tid };
	} else if (o->frames.unwinder[i].kind == UNWINDER_CAUGHT) {
		/* The stack pointer of the frame that continues: what is at or below it is gone. */
		s.below = hit->sp + RETURN_BYTES;
		s.ends = s.clears = s.only_doubtful = true;
	}
	sweep(o, &s, hit->time_ns);
}

void watch_frames_begins(struct watch_objects *o, const struct trapline_hit *hit, uint64_t cfa)
{
	struct sweep s = { .tid = hit->tid, .below = cfa, .ends = true, .only_doubtful = true };

	sweep(o, &s, hit->time_ns);
}

/* A thread that has ended ran no return instruction; its stack is another's by now. */
static bool has_thread(const struct watch_objects *o, pid_t tid)
{
	return !tgkill(o->set->pid, tid, 0) || errno != ESRCH;
}

/* After a lost record it is not known which frames exist: all of them are forgotten. */
static bool is_record_lost(struct watch_objects *o)
{
	uint64_t lost = watch_objects_lost(o);

	if (lost == o->frames.lost)
		return false;
	o->frames.lost = lost;
	struct sweep s = { .below = UINT64_MAX, .ends = true };
	sweep(o, &s, clock_now_ns());
	return true;
}

bool watch_frames_accepts(struct watch_objects *o, const struct object *frame,
			  const struct trapline_hit *hit)
{
	bool is_doubtful = frame->is_doubtful ||
			   (hit->tid != frame->tid && !has_thread(o, frame->tid));

	if (is_record_lost(o))
		return false;
	o->counts.doubtful += is_doubtful;
	return !is_doubtful;
}
