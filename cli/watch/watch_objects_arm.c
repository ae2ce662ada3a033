/* SPDX-License-Identifier: MIT */
/* watch_objects_arm.c - the events of `trapline watch --from`, and the sums at its end. */
#include "base/clock.h"
#include "cli/message.h"
#include "cli/watch/watch_frames.h"
#include "cli/watch/watch_objects.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <unistd.h>

static int arm_point(struct object_point *p, struct trapline *t, const struct session *session,
		     struct trapline_event_opts opts)
{
	uint64_t *addresses = calloc(p->sites.count ? p->sites.count : 1, sizeof(*addresses));
	size_t n = 0;

	if (!addresses)
		return cli_wrong(session->name, "out of memory");
	for (size_t i = 0; i < p->sites.count; i++)
		if (!p->way[i].is_left_out)
			addresses[n++] = p->sites.site[i].address;
	opts.flags |= p->is_return ? TRAPLINE_RETURNS : 0;
	int err = trapline_break_sites(t, addresses, n, &opts, &p->event);
	free(addresses);
	if (err >= 0)
		return 0;
	if (geteuid() && (err == -EPERM || err == -EACCES || err == -EOPNOTSUPP))
		return cli_wrong(
			session->name,
			"cannot use --from or FUNC:VARIABLE: it needs uprobes and BPF, which need root "
			"(CAP_SYS_ADMIN and CAP_BPF)");
	return session_explain(session, "break on", p->where, err);
}

static int arm_slots(struct watch_objects *o, struct trapline *t, const struct session *session,
		     const struct trapline_event_opts *opts)
{
	int err = 0;

	while (!err)
		err = watch_slots_add(&o->slots, t, WATCH_REST(o->expr.address), o->expr.len,
				      o->expr.access, opts);
	return o->slots.count ? 0 : session_explain(session, "watch", o->set->expr, err);
}

int watch_objects_arm(struct watch_objects *o, struct trapline *t, const struct session *session,
		      const struct trapline_event_opts *opts)
{
	o->delays_ns = calloc(DELAYS_MAX, sizeof(*o->delays_ns));
	if (!o->delays_ns)
		return cli_wrong(session->name, "out of memory");
	TRAPLINE_OPTS(event, point);
	point.arg = opts->arg;
	/* The breakpoint on the ends is armed first, so that no end is missed. */
	int status = o->until.sites.count ? arm_point(&o->until, t, session, point) : 0;
	if (!status && o->frames.returns.sites.count)
		status = arm_point(&o->frames.returns, t, session, point);
	if (!status && o->frames.are)
		status = watch_frames_arm(o, t, &point) ?
				 cli_wrong(session->name,
					   "cannot use FUNC:VARIABLE: breakpoints on longjmp and "
					   "exceptions are not possible here; see trapline check") :
				 0;
	watch_objects_stall(o, session, &point);
	if (!status)
		status = arm_point(&o->at, t, session, point);
	return status ? status : arm_slots(o, t, session, opts);
}

static uint64_t lost_of(struct trapline_event *event)
{
	struct trapline_stats st = { .size = sizeof(st) };

	if (!event || trapline_event_stats(event, &st) < 0)
		return 0;
	return st.lost_ring_full + st.lost_kernel;
}

uint64_t watch_objects_lost(const struct watch_objects *o)
{
	return lost_of(o->at.event) + lost_of(o->until.event) + lost_of(o->frames.returns.event) +
	       lost_of(o->frames.unwinding);
}

static int compare_delays(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a;
	uint32_t y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void count_alive(const void *node, VISIT which, void *arg)
{
	struct watch_objects *o = arg;

	if (which != postorder && which != leaf)
		return;
	struct object *object = *(struct object *const *)node;
	uint64_t now = clock_now_ns();

	o->counts.alive++;
	o->counts.life_ns += now > object->born_ns ? now - object->born_ns : 0;
	if (object->armed_ns && now > object->armed_ns)
		object->watched_ns += now - object->armed_ns;
	object->armed_ns = 0;
	o->counts.watched_ns += object->watched_ns;
}

void watch_objects_end(struct watch_objects *o, struct run_end *end)
{
	if (o->stall)
		trapline_event_stop_next(o->at.event, 0);
	watch_stall_close(o->stall);
	o->stall = NULL;
	twalk_r(o->known, count_alive, o);
	/* They ended before their register was armed. */
	o->counts.watched -= o->counts.too_late;
	o->counts.calls_lost = watch_objects_lost(o);
	watch_slots_stats(&o->slots, end);
	end->delivered -= o->counts.after_end < end->delivered ? o->counts.after_end :
								 end->delivered;
	end->counts[end->count_count++] =
		(struct run_count){ .name = "after_end", .value = o->counts.after_end };
	if (o->delay_count)
		qsort(o->delays_ns, o->delay_count, sizeof(*o->delays_ns), compare_delays);
	o->counts.delay_median_ns = o->delay_count ? o->delays_ns[o->delay_count / 2] : 0;
	o->counts.delays = o->delay_count;
	o->counts.at = o->frames.are ? o->at.where : o->set->from;
	o->counts.is_frame = o->frames.are;
	o->counts.until = o->set->until;
	o->counts.function = o->at.where;
	o->counts.is_return = o->at.is_return;
	o->counts.calls = o->at.calls;
	o->counts.registers = o->slots.count;
	end->objects = &o->counts;
	if (o->at.left && !o->frames.are)
		cli_note(
			o->set->name,
			"%llu calls of %s ended with a jump to another function, so their results were "
			"not seen; use --from with that function",
			(unsigned long long)o->at.left, o->at.where);
}

static void point_release(struct object_point *p)
{
	code_sites_free(&p->sites);
	free(p->way);
}

void watch_objects_release(struct watch_objects *o)
{
	watch_stall_close(o->stall);
	point_release(&o->at);
	point_release(&o->until);
	point_release(&o->frames.returns);
	tdestroy(o->known, free);
	free(o->delays_ns);
}
