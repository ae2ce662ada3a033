/* SPDX-License-Identifier: MIT */
/*
 * watch_objects.c - tracks objects that are created and destroyed, and gives them debug registers.
 *
 * Calls and hits come through one ring in the order in which they happened. A hit after the end of
 * its object is an access to memory that was used again, and is rejected.
 */
#include "cli/watch/watch_objects.h"

#include "base/clock.h"
#include "cli/watch/watch_frames.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_EVERY_NS 100000000u
#define NOT_BEFORE_MS 100
#define LAG_MAX_NS 5000000u

static int object_compare(const void *a, const void *b)
{
	const struct object *x = a;
	const struct object *y = b;

	return (x->pointer > y->pointer) - (x->pointer < y->pointer);
}

static struct object *object_find(const struct watch_objects *o, uint64_t pointer)
{
	struct object key = { .pointer = pointer };
	struct object **found = tfind(&key, &o->known, object_compare);

	return found ? *found : NULL;
}

static struct object *object_add(struct watch_objects *o, uint64_t pointer, uint64_t born_ns)
{
	struct object *new = o->known_count < OBJECTS_MAX ? calloc(1, sizeof(*new)) : NULL;

	if (!new) {
		o->counts.untracked++;
		return NULL;
	}
	new->pointer = pointer;
	new->born_ns = born_ns;
	if (!tsearch(new, &o->known, object_compare)) {
		free(new);
		o->counts.untracked++;
		return NULL;
	}
	o->known_count++;
	return new;
}

static void wait_begin(struct watch_objects *o, struct object *object)
{
	object->waits = true;
	object->next = NULL;
	object->before = o->last_waiting;
	*(o->last_waiting ? &o->last_waiting->next : &o->first_waiting) = object;
	o->last_waiting = object;
}

static void wait_end(struct watch_objects *o, struct object *object)
{
	if (!object->waits)
		return;
	*(object->before ? &object->before->next : &o->first_waiting) = object->next;
	*(object->next ? &object->next->before : &o->last_waiting) = object->before;
	object->waits = false;
}

static void note_delay(struct watch_objects *o, uint64_t delay_ns)
{
	if (delay_ns > o->counts.delay_max_ns)
		o->counts.delay_max_ns = delay_ns;
	if (o->delay_count < DELAYS_MAX)
		o->delays_ns[o->delay_count++] = delay_ns > UINT32_MAX ? UINT32_MAX :
									 (uint32_t)delay_ns;
}

static void stop_clock(struct object *object, uint64_t until_ns)
{
	if (object->armed_ns && until_ns > object->armed_ns)
		object->watched_ns += until_ns - object->armed_ns;
	object->armed_ns = 0;
}

static void count_life(struct watch_objects *o, struct object *object, uint64_t end_ns)
{
	bool is_armed = object->armed_ns != 0;

	stop_clock(object, end_ns);
	o->counts.too_late += is_armed && !object->watched_ns;
	o->counts.watched_ns += object->watched_ns;
	o->counts.life_ns += end_ns > object->born_ns ? end_ns - object->born_ns : 0;
}

void watch_objects_ended(struct watch_objects *o, struct object *object, uint64_t end_ns)
{
	if (object->armed_ns)
		o->holder[object->slot] = NULL;
	count_life(o, object, end_ns);
	wait_end(o, object);
	tdelete(object, &o->known, object_compare);
	o->known_count--;
	free(object);
}

/* The path from a call's registers to its object; NULL: the call is not at a wanted site. */
static const struct object_way *way_of(const struct watch_objects *o, struct object_point *p,
				       const struct trapline_hit *hit, uint64_t *pointer)
{
	const struct code_site *site = code_sites_at(&p->sites, hit->address);

	if (site && o->frames.are) {
		const struct object_way *way = &p->way[site - p->sites.site];
		p->calls++;
		return watch_frames_pointer(p, hit, way, pointer) ? way : NULL;
	}
	if (site && hit->returned == TRAPLINE_LEFT)
		p->left++;
	if (!site || hit->returned != (p->is_return ? TRAPLINE_RETURNED : 0))
		return NULL;
	const struct object_way *way = &p->way[site - p->sites.site];
	p->calls++;
	return trapline_hit_register(hit, way->reg, pointer) ? NULL : way;
}

static bool has_free_slot(const struct watch_objects *o)
{
	for (size_t i = 0; i < o->slots.count; i++)
		if (!o->holder[i])
			return true;
	return false;
}

static void on_at(struct watch_objects *o, const struct trapline_hit *hit)
{
	uint64_t pointer;
	const struct object_way *way = way_of(o, &o->at, hit, &pointer);

	if (!way)
		return;
	if (!pointer) {
		o->counts.nothing++;
		return;
	}
	struct object *object = object_find(o, pointer);
	/*
	 * A constructor returns a new object: the end of the old one at this address was not seen.
	 */
	if (object && (o->at.is_return || way->is_anew || object->is_doubtful)) {
		o->counts.ended++;
		watch_objects_ended(o, object, hit->time_ns);
		object = NULL;
	}
	if (object)
		return;
	if (o->frames.are)
		watch_frames_begins(o, hit, pointer);
	o->counts.seen++;
	object = object_add(o, pointer, hit->time_ns);
	if (!object)
		return;
	object->way = way;
	object->tid = hit->tid;
	object->is_stalled = hit->stopped;
	object->batch = has_free_slot(o) ? o->batch + 1 : 0;
	wait_begin(o, object);
}

static void on_until(struct watch_objects *o, struct object_point *p,
		     const struct trapline_hit *hit)
{
	uint64_t pointer;
	struct object *object;

	if (!way_of(o, p, hit, &pointer) || !(object = object_find(o, pointer)))
		return;
	o->counts.ended++;
	watch_objects_ended(o, object, hit->time_ns);
}

/* A record that is not an access; false: it is one. */
static bool take_call(struct watch_objects *o, const struct trapline_hit *hit)
{
	if (hit->event == o->at.event)
		on_at(o, hit);
	else if (hit->event == o->until.event)
		on_until(o, &o->until, hit);
	else if (o->frames.are && hit->event == o->frames.returns.event)
		on_until(o, &o->frames.returns, hit);
	else if (o->frames.are && hit->event == o->frames.unwinding)
		watch_frames_unwinds(o, hit);
	else
		return false;
	o->lag_ns = clock_now_ns() - hit->time_ns;
	return true;
}

bool watch_objects_hit(struct watch_objects *o, const struct trapline_hit *hit,
		       struct watch_which *which)
{
	if (take_call(o, hit))
		return false;
	size_t slot = watch_slots_find(&o->slots, hit->event);
	const struct object *object = slot < o->slots.count ? o->holder[slot] : NULL;
	if (!object || hit->address - object->address >= o->expr.len) {
		o->counts.after_end++;
		return false;
	}
	if (o->frames.are && !watch_frames_accepts(o, object, hit))
		return false;
	o->expr.address = object->address;
	snprintf(o->name, sizeof(o->name), "0x%llx", (unsigned long long)object->pointer);
	*which = (struct watch_which){ .expr = &o->expr, .name = o->name, .is_object = true };
	return true;
}

/* An object ends when its memory is unmapped. */
static void look_for_unmapped(struct watch_objects *o, uint64_t now)
{
	char byte;

	for (size_t i = 0; i < o->slots.count; i++) {
		struct object *object = o->holder[i];
		if (!object || symbols_read(o->symbols, object->address, &byte, 1) != -EFAULT)
			continue;
		o->counts.unmapped++;
		watch_objects_ended(o, object, now);
	}
}

/* False: the object cannot be watched. */
static bool watch_in(struct watch_objects *o, struct object *object, size_t slot)
{
	if (expression_path_follow(o->symbols, &object->way->path, object->pointer,
				   &object->address) ||
	    watch_slots_move(&o->slots, slot, object->address, 0) < 0) {
		o->counts.no_place++;
		return false;
	}
	object->armed_ns = clock_now_ns();
	object->slot = slot;
	o->holder[slot] = object;
	o->is_resting[slot] = false;
	o->counts.watched += !object->was_watched;
	if (object->batch == o->batch + 1 && !object->was_watched)
		note_delay(o, object->armed_ns - object->born_ns);
	object->was_watched = true;
	return true;
}

/* Takes the newest object, of which least was missed; multiplexed the one that waited longest. */
static void fill_slot(struct watch_objects *o, size_t slot)
{
	struct object *next;

	while ((next = o->set->slice_ns ? o->first_waiting : o->last_waiting)) {
		wait_end(o, next);
		if (watch_in(o, next, slot))
			return;
	}
	if (!o->is_resting[slot])
		watch_slots_move(&o->slots, slot, o->slots.rest[slot], 0);
	o->is_resting[slot] = true;
}

/*
 * Only after all calls so far have been read. Moving a register takes longer than many objects
 * live, and an object whose end is not read yet would be watched without use.
 */
bool watch_objects_fill(struct watch_objects *o)
{
	if (o->lag_ns > LAG_MAX_NS)
		return false;
	for (size_t n = 0; n < o->slots.count; n++) {
		size_t slot = (o->next_slot + n) % o->slots.count;
		if (o->holder[slot])
			continue;
		fill_slot(o, slot);
		o->next_slot = slot + 1;
	}
	o->batch++;
	return true;
}

/* The objects that have a register go to the end of the queue. */
static void turn(struct watch_objects *o, uint64_t now)
{
	for (size_t i = 0; i < o->slots.count && o->first_waiting; i++) {
		struct object *object = o->holder[i];
		if (!object)
			continue;
		stop_clock(object, now);
		o->holder[i] = NULL;
		wait_begin(o, object);
		fill_slot(o, i);
	}
}

int watch_objects_tick(struct watch_objects *o)
{
	uint64_t now = clock_now_ns();

	bool is_filled = watch_objects_fill(o);
	/* The records are read now, so there is no lag. */
	o->lag_ns = 0;
	if (now >= o->next_look_ns) {
		look_for_unmapped(o, now);
		o->next_look_ns = now + LOOK_EVERY_NS;
	}
	if (!o->set->slice_ns || !is_filled)
		return is_filled ? NOT_BEFORE_MS : 0;
	if (now >= o->next_turn_ns) {
		turn(o, now);
		o->next_turn_ns = now + o->set->slice_ns;
	}
	return (int)((o->next_turn_ns - now) / 1000000u) + 1;
}
